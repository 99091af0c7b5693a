# SPDX-License-Identifier: Apache-2.0
"""The checkpoint odd-shapes: what is no multiple of anything, at the ends of its type, or oddly named."""
import numpy as np

from checkpoint import (
    FLT_MAX, Tensor, bf16, f16, f32, gain, normal, subnormal_bits, weight, with_amax,
    write_checkpoint, write_safetensors
)

ODD_CONFIG = r'''{
  "architectures": ["OddForCausalLM"],
  "model_type": "odd",
  "auto_map": {"AutoConfig": "configuration_odd.OddConfig"},
  "hidden_size": 300,
  "num_hidden_layers": 4,
  "vocab_size": 96,
  "rms_norm_eps": 1e-05,
  "layer_norm_eps": 1e-6,
  "residual_multiplier": 2.5E-1,
  "initializer_range": 0.02,
  "tie_word_embeddings": false,
  "quantization_config": null,
  "rope_parameters": {
    "rope_type": "odd", "rope_theta": 1000000.0, "factors": [1.0, 1e+2, -0.5, 0],
    "nested": {"empty": {}, "none": null, "list": [[], [[]]]}
  },
  "number_past_2_to_53": 9007199254740993,
  "largest_int64": 9223372036854775807,
  "smallest_int64": -9223372036854775808,
  "author": "Zoë Ångström, 数据, \u00e9t\u00e9, 🦙 and \ud83e\udd99",
  "quoted": "say \"hi\" \\ back\/slash\ttab",
  "": "the empty key",
  "torch_dtype": "bfloat16",
  "transformers_version": "0.0.0"
}
'''

ODD_FILES = {
    "config.json": ODD_CONFIG,
    "generation_config.json": '{\n  "do_sample": false\n}\n',
    "tokenizer_config.json": '{"model_max_length": 1000000000000000019884624838656}\n',
    "chat_template.jinja": "{% for message in messages %}{{ message.content }}\n{% endfor %}",
    "configuration_odd.py": '"""Stands for the code that some checkpoints carry."""\n',
    "LICENSE": "Stands for the licence of a model.  The weights beside it are made up.\n",
    "1_Pooling/config.json": '{"pooling_mode_mean_tokens": true}\n',
    "original/params.json": '{"dim": 300, "n_layers": 4}\n',
    "original/consolidated.00.pth": "not a model\n",
    "pytorch_model.bin": "not a model\n",
}


def odd_bf16(at0, at3):
    """Layer 0: no dimension divides by 128.  Layer 3: zero and subnormal blocks."""
    shapes = {"self_attn.q_proj": (303, 300), "self_attn.k_proj": (65, 300),
              "self_attn.v_proj": (65, 300), "self_attn.o_proj": (305, 256),
              "mlp.gate_proj": (305, 128), "mlp.up_proj": (305, 128), "mlp.down_proj": (256, 272)}
    tensors = {f"{at0}{p}.weight": bf16(weight(at0 + p, shape)) for p, shape in shapes.items()}
    down, o = bf16(weight(at3 + "down", (993, 512))), bf16(weight(at3 + "o", (128, 256)))
    down.data[128:256, 128:256] = 0
    down.data[256:384, 384:] = subnormal_bits("down", (128, 128), 7)
    down.data[896:, :128] = 0                               # a ragged block
    o.data[:, 128:] = subnormal_bits("o", (128, 128), 7)
    return tensors | {f"{at3}mlp.down_proj.weight": down, f"{at3}self_attn.o_proj.weight": o,
                      f"{at3}column_proj.weight": bf16(weight("column", (1024, 1)))}


def odd_f16(at):
    """Small ragged shapes; F16's largest and smallest values."""
    tensors = {f"{at}self_attn.{p}_proj.weight": f16(weight(at + p, (65, 96))) for p in "qkv"}
    for p in ("gate", "up"):
        tensors[f"{at}mlp.{p}_proj.weight"] = f16(weight(at + p, (1, 16)))
    o, down = f16(weight(at + "o", (96, 65))), f16(with_amax(at + "down", (128, 256), 65504))
    o.data[0, 0], o.data[95, 64] = 65504, -65504
    down.data[:, 128:] = subnormal_bits(at + "down", (128, 128), 10).view(np.float16)
    return tensors | {f"{at}self_attn.o_proj.weight": o, f"{at}mlp.down_proj.weight": down}


def odd_f32(at):
    """Magnitudes at the ends of fp32, in blocks of one tensor and in tensors of their own."""
    edge = np.float32(448) / FLT_MAX                        # below it, 448 / amax overflows
    below, above = np.nextafter(edge, np.float32(0)), np.nextafter(edge, np.float32(1))

    def blocks(name, amaxes):
        return f32(np.hstack([with_amax(f"{name} {i}", (128, 128), amax)
                              for i, amax in enumerate(amaxes)]))

    down = weight(at + "down", (256, 128))
    down[128:] = 0
    tensors = {"self_attn.q_proj": f32(weight(at + "q", (128, 128))),
               "self_attn.k_proj": f32(with_amax(at + "k", (128, 128), 1.3e-36)),
               "self_attn.v_proj": f32(with_amax(at + "v", (128, 128), 1e-38)),
               "self_attn.o_proj": bf16(np.zeros((128, 128))),
               "mlp.gate_proj": blocks("gate", (below, edge, above)),
               "mlp.up_proj": blocks("up", (1e-38, 1e-40, 3e38)),
               "mlp.down_proj": f32(down)}
    for p, amax in (("tiny", 1.3e-36), ("faint", 1e-38), ("fainter", 1e-45), ("huge", 3e38)):
        tensors[f"mlp.{p}_proj"] = f32(with_amax(p, (16, 128), amax))
    return {f"{at}{p}.weight": t for p, t in tensors.items()}


def odd_others(at):
    """What is no matrix, or no float, or has an odd name."""
    return {
        "model.embed_tokens.weight": bf16(normal("embed", (96, 300))),
        "lm_head.weight": bf16(normal("head", (96, 300))),
        "model.norm.weight": f32(gain("norm", 300)),
        f"{at}input_layernorm.weight": bf16(gain("input", 512)),
        f"{at}self_attn.o_proj.bias": f16(normal("bias", 128)),
        f"{at}empty_proj.weight": bf16(np.zeros((0, 128))),
        f"{at}empty_proj.bias": f32(np.zeros(0)),
        f"{at}hollow_proj.weight": f16(np.zeros((128, 0))),
        "model.logit_multiplier": f32(0.125),
        f"{at}skip": bf16(-1.5),
        "model.n_steps": Tensor("I64", np.array(-(1 << 62), np.int64)),
        f"{at}linear_attn.conv1d.weight": bf16(normal("conv1d", (96, 1, 4))),
        "model.patch_embed.proj.weight": bf16(normal("patch", (16, 3, 4, 4))),
        "model.position_ids": Tensor("I64", np.arange(16).reshape(1, 16)),
        f"{at}hash_proj.weight": Tensor("I64", np.arange(16 * 128).reshape(16, 128) - 1024),
        f"{at}mask": Tensor("BOOL", np.tril(np.ones((1, 1, 9, 9), np.bool_))),
        f"{at}packed_proj.weight": Tensor("U8", np.arange(8192).astype(np.uint8).reshape(64, 128)),
        "model.rotary.inv_freq": Tensor("F64", 1 / np.arange(1, 17)),
        f"{at}étage haut.up_proj.weight": bf16(weight("étage", (128, 128))),
        f"{at}数据 🦙.weight": bf16(weight("llama", (128, 128))),
        f'{at}say "hi" \\ now.weight': bf16(weight("hi", (128, 128))),
    }


def make_odd_shapes(out):
    at = "model.layers.{}.".format
    tensors = odd_bf16(at(0), at(3)) | odd_f16(at(1)) | odd_f32(at(2)) | odd_others(at(3))
    write_checkpoint(out, tensors, lambda name: any(
                         part in name for part in (".layers.1.", ".layers.3.", ".0.mlp.up_proj.")),
                     {"metadata": {"note": "été", "empty": ""}, "ascii_header": True})
    write_safetensors(out / "consolidated.safetensors", {
        "norm.weight": bf16(gain("stray", 300)), "model.norm.weight": f32(np.zeros(300))})
    for name, text in ODD_FILES.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
