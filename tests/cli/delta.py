# SPDX-License-Identifier: Apache-2.0
"""delta.py DIR next|next-split|3.5: a small random model with gated DeltaNet in its first layer and gated attention in its
second one, as Qwen3-Next (experts in two tensors, or one matrix each) or Qwen3.5 (dense) name their tensors."""
import json
import math
import pathlib
import random
import sys

import checkpoint

VOCAB, HIDDEN, WIDTH, EXPERTS = 96, 32, 48, 4
KEY_HEADS, HEADS, KEY, VALUE = 2, 4, 12, 20       # of gated DeltaNet
KEYS, VALUES = KEY_HEADS * KEY, HEADS * VALUE
CONFIG = {"hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "vocab_size": VOCAB, "intermediate_size": WIDTH, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
          "partial_rotary_factor": 0.25, "full_attention_interval": 2, "linear_num_key_heads": KEY_HEADS,
          "linear_num_value_heads": HEADS, "linear_key_head_dim": KEY, "linear_value_head_dim": VALUE,
          "linear_conv_kernel_dim": 4, "torch_dtype": "bfloat16"}
MOE = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": WIDTH, "norm_topk_prob": True,
       "shared_expert_intermediate_size": WIDTH}


def attention():
    yield "self_attn.q_proj.weight", [2 * 4 * 16, HIDDEN]
    yield "self_attn.k_proj.weight", [2 * 16, HIDDEN]
    yield "self_attn.v_proj.weight", [2 * 16, HIDDEN]
    yield "self_attn.o_proj.weight", [HIDDEN, 4 * 16]
    yield "self_attn.q_norm.weight", [16]
    yield "self_attn.k_norm.weight", [16]


def delta(joined):
    if joined:
        yield "linear_attn.in_proj_qkvz.weight", [2 * KEYS + 2 * VALUES, HIDDEN]
        yield "linear_attn.in_proj_ba.weight", [2 * HEADS, HIDDEN]
    else:
        yield "linear_attn.in_proj_qkv.weight", [2 * KEYS + VALUES, HIDDEN]
        yield "linear_attn.in_proj_z.weight", [VALUES, HIDDEN]
        yield "linear_attn.in_proj_b.weight", [HEADS, HIDDEN]
        yield "linear_attn.in_proj_a.weight", [HEADS, HIDDEN]
    yield "linear_attn.conv1d.weight", [2 * KEYS + VALUES, 1, 4]
    yield "linear_attn.A_log", [HEADS]
    yield "linear_attn.dt_bias", [HEADS]
    yield "linear_attn.norm.weight", [VALUE]
    yield "linear_attn.out_proj.weight", [HIDDEN, VALUES]


def mlp(prefix, width):
    yield f"{prefix}.gate_proj.weight", [width, HIDDEN]
    yield f"{prefix}.up_proj.weight", [width, HIDDEN]
    yield f"{prefix}.down_proj.weight", [HIDDEN, width]


def shapes(kind):
    yield "model.embed_tokens.weight", [VOCAB, HIDDEN]
    for i in range(2):
        below = [("input_layernorm.weight", [HIDDEN]), ("post_attention_layernorm.weight", [HIDDEN])]
        below += attention() if i else delta(kind != "3.5")
        if kind == "3.5":
            below += mlp("mlp", WIDTH)
        else:
            below += [("mlp.gate.weight", [EXPERTS, HIDDEN]), ("mlp.shared_expert_gate.weight", [1, HIDDEN]),
                      ("mlp.experts.gate_up_proj", [EXPERTS, 2 * WIDTH, HIDDEN]),
                      ("mlp.experts.down_proj", [EXPERTS, HIDDEN, WIDTH]), *mlp("mlp.shared_expert", WIDTH)]
        for name, shape in below:
            yield f"model.layers.{i}.{name}", shape
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCAB, HIDDEN]
    yield "mtp.fc.weight", [HIDDEN, 2 * HIDDEN]


def split(tensors):
    """One matrix for each expert, of the same values."""
    for name, (dtype, shape, data) in tensors.items():
        if ".mlp.experts." not in name:
            yield name, (dtype, shape, data)
            continue
        parts = ("gate_proj", "up_proj") if "gate_up" in name else ("down_proj",)
        size = len(data) // shape[0] // len(parts)
        for i in range(shape[0] * len(parts)):
            module = f"{name.rpartition('.')[0]}.{i // len(parts)}.{parts[i % len(parts)]}.weight"
            yield module, (dtype, [shape[1] // len(parts), shape[2]], data[i * size:(i + 1) * size])


def main():
    folder, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
    values = random.Random(7)
    folder.mkdir()
    tensors = {name: ("BF16", shape, checkpoint.pack("BF16", [values.gauss(0, 0.3) for _ in range(math.prod(shape))]))
               for name, shape in shapes(kind)}
    checkpoint.write(folder / "model.safetensors", dict(split(tensors)) if kind == "next-split" else tensors)
    config = CONFIG | ({"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text"} if kind == "3.5"
                       else MOE | {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next"})
    (folder / "config.json").write_text(json.dumps(config))


main()
