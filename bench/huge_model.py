#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model of DeepSeek-V3's names and shapes in BF16, 1.3 TB, of which only the headers take room on the disk.

    huge_model.py DIR     163 files; their data are holes, which read as zeros
"""
import json
import pathlib
import sys

HIDDEN, DENSE, EXPERT, HEADS, VOCAB = 7168, 18432, 2048, 128, 129280
Q_RANK, KV_RANK, NOPE, ROPE = 1536, 512, 128, 64
LAYERS, DENSE_LAYERS, EXPERTS = 61, 3, 256
N_FILES = 163

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
    "hidden_size": HIDDEN, "intermediate_size": DENSE, "moe_intermediate_size": EXPERT, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "q_lora_rank": Q_RANK, "kv_lora_rank": KV_RANK,
    "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": NOPE, "vocab_size": VOCAB,
    "n_routed_experts": EXPERTS, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": DENSE_LAYERS,
    "n_group": 8, "topk_group": 4, "num_nextn_predict_layers": 1,
}


def mlp(name, width):
    yield f"{name}.gate_proj.weight", (width, HIDDEN)
    yield f"{name}.up_proj.weight", (width, HIDDEN)
    yield f"{name}.down_proj.weight", (HIDDEN, width)


def layer(n):
    """The tensors of layer n: (name, shape).  The last layer predicts the token after the next one."""
    name = f"model.layers.{n}"
    yield f"{name}.input_layernorm.weight", (HIDDEN,)
    yield f"{name}.post_attention_layernorm.weight", (HIDDEN,)
    attention = f"{name}.self_attn"
    yield f"{attention}.q_a_proj.weight", (Q_RANK, HIDDEN)
    yield f"{attention}.q_a_layernorm.weight", (Q_RANK,)
    yield f"{attention}.q_b_proj.weight", (HEADS * (NOPE + ROPE), Q_RANK)
    yield f"{attention}.kv_a_proj_with_mqa.weight", (KV_RANK + ROPE, HIDDEN)
    yield f"{attention}.kv_a_layernorm.weight", (KV_RANK,)
    yield f"{attention}.kv_b_proj.weight", (HEADS * 2 * NOPE, KV_RANK)
    yield f"{attention}.o_proj.weight", (HIDDEN, HEADS * NOPE)
    if n < DENSE_LAYERS:
        yield from mlp(f"{name}.mlp", DENSE)
        return
    yield f"{name}.mlp.gate.weight", (EXPERTS, HIDDEN)
    yield f"{name}.mlp.gate.e_score_correction_bias", (EXPERTS,)
    yield from mlp(f"{name}.mlp.shared_experts", EXPERT)
    for e in range(EXPERTS):
        yield from mlp(f"{name}.mlp.experts.{e}", EXPERT)
    if n == LAYERS:
        yield f"{name}.embed_tokens.weight", (VOCAB, HIDDEN)
        yield f"{name}.enorm.weight", (HIDDEN,)
        yield f"{name}.hnorm.weight", (HIDDEN,)
        yield f"{name}.eh_proj.weight", (HIDDEN, 2 * HIDDEN)
        yield f"{name}.shared_head.norm.weight", (HIDDEN,)
        yield f"{name}.shared_head.head.weight", (VOCAB, HIDDEN)


def tensors():
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for n in range(LAYERS + 1):
        yield from layer(n)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCAB, HIDDEN)


def size(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir()
    total = sum(size(shape) for _, shape in tensors())
    files, done = [{} for _ in range(N_FILES)], 0
    for name, shape in tensors():
        files[min(done * N_FILES // total, N_FILES - 1)][name] = shape
        done += size(shape)
    weight_map = {}
    for i, shapes in enumerate(files, 1):
        file_name = f"model-{i:05}-of-{N_FILES:06}.safetensors"
        header, at = {}, 0
        for name, shape in shapes.items():
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size(shape)]}
            at += size(shape)
            weight_map[name] = file_name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file_name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + at)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(CONFIG))


main()
