# SPDX-License-Identifier: Apache-2.0
"""A Llama checkpoint of BF16 as a GGUF file without a vocabulary, which llama-bench does not need: llamacpp_gguf.py MODEL OUT,
with the gguf package (llama.cpp's gguf-py) and safetensors."""
import json
import sys
from pathlib import Path

import gguf
import torch
from safetensors.torch import load_file


def turned(weight: torch.Tensor, n_heads: int) -> torch.Tensor:
    """llama.cpp rotates pairs that lie side by side, as Meta's own checkpoints have them."""
    rows, cols = weight.shape
    return weight.reshape(n_heads, 2, rows // n_heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def main() -> None:
    model, out = Path(sys.argv[1]), sys.argv[2]
    config = json.loads((model / "config.json").read_text())
    n_heads, n_layers = config["num_attention_heads"], config["num_hidden_layers"]
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(n_layers)
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // n_heads)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("no_vocab")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, n_layers)
    for name, weight in load_file(model / "model.safetensors").items():
        if name.endswith("q_proj.weight"):
            weight = turned(weight, n_heads)
        elif name.endswith("k_proj.weight"):
            weight = turned(weight, config["num_key_value_heads"])
        values = weight.float().contiguous().numpy()
        kind = gguf.GGMLQuantizationType.F32 if values.ndim == 1 else gguf.GGMLQuantizationType.BF16
        writer.add_tensor(names.get_name(name.removesuffix(".weight")) + ".weight", gguf.quants.quantize(values, kind),
                          raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
