# SPDX-License-Identifier: Apache-2.0
"""layers.py DIR LAYERS MIB [HIDDEN]: a Llama of so many layers of about MIB MiB each, in BF16, that takes next to no disk:
all weights are holes, but for some values in each.

Its files are sparse, and read as fast as memory is cleared."""
import json
import math
import pathlib
import sys

import checkpoint

VOCAB = 512


def shapes(n_layers, mib, hidden):
    width = ((mib << 19) - 4 * hidden * hidden) // (3 * hidden) // 64 * 64
    yield "model.embed_tokens.weight", [VOCAB, hidden]
    for i in range(n_layers):
        for name, shape in (("self_attn.q_proj", [hidden, hidden]), ("self_attn.k_proj", [hidden, hidden]),
                            ("self_attn.v_proj", [hidden, hidden]), ("self_attn.o_proj", [hidden, hidden]),
                            ("mlp.gate_proj", [width, hidden]), ("mlp.up_proj", [width, hidden]),
                            ("mlp.down_proj", [hidden, width]), ("input_layernorm", [hidden]),
                            ("post_attention_layernorm", [hidden])):
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", [hidden]


def main():
    folder, n_layers, mib, hidden = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:4]), int((sys.argv[4:] or [1024])[0])
    folder.mkdir()
    sizes = {name: ("BF16", shape, 2 * math.prod(shape)) for name, shape in shapes(n_layers, mib, hidden)}
    with open(folder / "model.safetensors", "wb") as file:
        at = file.write(checkpoint.head(sizes))
        for i, (dtype, shape, size) in enumerate(sizes.values()):
            file.seek(at)
            file.write(checkpoint.pack(dtype, [((i + j) % 13 - 6) / 16 for j in range(min(math.prod(shape), 4096))]))
            at += size
        file.truncate(at)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": n_layers,
              "num_attention_heads": hidden // 64, "num_key_value_heads": hidden // 64, "vocab_size": VOCAB,
              "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))


main()
