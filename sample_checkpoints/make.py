#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the checkpoints tiny-moe and odd-shapes: same bytes on every run.

    python make.py [OUT]        (default: the folder of this script)

Every tensor is drawn from its own generator, seeded by its name, so adding one changes no other.
Needs numpy; np.random.RandomState is used because numpy has frozen its streams.
"""
import json
import pathlib
import sys
import typing
import zlib

import numpy as np

# The order in which the reference serialiser lays out types; within one, tensors lie by name.
LAYOUT = ["I64", "F64", "F32", "I32", "BF16", "F16", "I8", "U8", "BOOL"]
FLT_MAX = np.finfo(np.float32).max


class Tensor(typing.NamedTuple):
    dtype: str
    data: np.ndarray                        # BF16 is held as its bits, uint16


# Numbers

def rng(name):
    return np.random.RandomState(zlib.crc32(name.encode()))


def bf16(x):
    """fp32 to BF16, round to nearest even; x is finite and far from overflow."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return Tensor("BF16", np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, np.uint16))


def f16(x):
    return Tensor("F16", np.asarray(x, np.float16))


def f32(x):
    return Tensor("F32", np.asarray(x, np.float32))


def normal(name, shape, std=0.02):
    return (rng(name).standard_normal(shape) * std).astype(np.float32)


def weight(name, shape, std=0.02):
    """Gaussian with one outlier of 5 to 20 standard deviations in about 4096 elements."""
    x = normal(name, shape, std)
    r = rng(name + " outliers")
    where = r.randint(0, x.size, max(1, x.size // 4096))
    x.reshape(-1)[where] = std * r.uniform(5, 20, where.size) * r.choice([-1, 1], where.size)
    return x


def gain(name, n):
    """A norm's weight."""
    return 1 + normal(name, n, 0.1)


def with_amax(name, shape, amax):
    """Gaussian, scaled so that the largest magnitude is fp32(amax) exactly."""
    x = normal(name, shape, 1.0).astype(np.float64)
    top = np.unravel_index(np.abs(x).argmax(), x.shape)
    x *= float(amax) / np.abs(x[top])
    x[top] = amax
    return x.astype(np.float32)


def subnormal_bits(name, shape, n_mantissa):
    """Subnormal floats of 16 bits, as bits: exponent 0, any mantissa but 0, any sign."""
    r = rng(name)
    return (r.randint(1, 1 << n_mantissa, shape) | r.randint(0, 2, shape) << 15).astype(np.uint16)


# Files

def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_safetensors(path, tensors, metadata=None, ascii_header=False):
    """The reference's layout.  ascii_header: names escaped (\\u00e9), and listed against the
    order of the data, both of which a reader must take."""
    order = sorted(tensors, key=lambda name: (LAYOUT.index(tensors[name].dtype), name.encode()))
    header, end = {}, 0
    for name in order:
        dtype, data = tensors[name]
        begin, end = end, end + data.nbytes
        header[name] = {"dtype": dtype, "shape": data.shape, "data_offsets": [begin, end]}
    if ascii_header:
        header = dict(reversed(header.items()))
    header = {"__metadata__": {"format": "pt", **(metadata or {})}, **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=ascii_header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            data = tensors[name].data
            file.write(data.astype(data.dtype.newbyteorder("<")).tobytes())


def write_checkpoint(out, tensors, in_second=None, second=None):
    """One file; or two and an index, with in_second(name) true for those of the second file and
    `second` holding its further arguments of write_safetensors."""
    out.mkdir(parents=True, exist_ok=True)
    if not in_second:
        write_safetensors(out / "model.safetensors", tensors)
        return
    weight_map = {}
    for i in (0, 1):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        shard = {name: t for name, t in tensors.items() if bool(in_second(name)) == bool(i)}
        write_safetensors(out / file, shard, **(second or {} if i else {}))
        weight_map.update(dict.fromkeys(shard, file))
    write_json(out / "model.safetensors.index.json", {
        "metadata": {"total_size": sum(t.data.nbytes for t in tensors.values())},
        "weight_map": dict(sorted(weight_map.items()))})


# tiny-moe

HIDDEN, MOE, EXPERTS, LAYERS, VOCAB = 128, 128, 3, 2, 256
PROJECTIONS = [("gate", (MOE, HIDDEN)), ("up", (MOE, HIDDEN)), ("down", (HIDDEN, MOE))]

# These lie in the second file: q/k/v and gate/up groups across both.
MOVED = {"model.layers.0.self_attn.v_proj.weight", "model.layers.0.mlp.experts.2.up_proj.weight"}
STAYED = {"model.layers.1.self_attn.q_proj.weight", "model.layers.1.mlp.experts.0.gate_proj.weight"}

QWEN3_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "decoder_sparse_step": 1,
    "eos_token_id": None,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": 256,
    "max_position_embeddings": 512,
    "max_window_layers": LAYERS,
    "mlp_only_layers": [],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": MOE,
    "norm_topk_prob": True,
    "num_attention_heads": 4,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 4,
    "output_router_logits": False,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": VOCAB,
}

# The same as transformers 5 spells it.
QWEN3_MOE_5 = {key: value for key, value in QWEN3_MOE.items()
               if key not in ("num_experts", "rope_scaling", "rope_theta", "torch_dtype")} | {
    "num_local_experts": EXPERTS,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "dtype": "bfloat16",
}


def attention(prefix, layer):
    """q, k, v, o of one layer: 4 heads of 32."""
    at = f"model.layers.{layer}.self_attn."
    return {f"{prefix}{at}{p}_proj.weight": bf16(weight(f"{at}{p}_proj", (HIDDEN, HIDDEN)))
            for p in "qkvo"}


def norms(prefix, layer):
    at = f"model.layers.{layer}."
    return {f"{prefix}{at}{p}.weight": bf16(gain(at + p, HIDDEN))
            for p in ("input_layernorm", "post_attention_layernorm")}


def expert(layer, e):
    """gate, up, down of one expert, as BF16."""
    at = f"model.layers.{layer}.mlp.experts.{e}."
    return {p: bf16(weight(f"{at}{p}_proj", shape)) for p, shape in PROJECTIONS}


def fused(layer):
    """All experts of a layer: gate_up [E, 2I, H] and down [E, H, I]."""
    experts = [expert(layer, e) for e in range(EXPERTS)]
    gate_up = [np.concatenate([e["gate"].data, e["up"].data]) for e in experts]
    return np.stack(gate_up), np.stack([e["down"].data for e in experts])


def qwen3_moe(fuse):
    tensors = {"model.embed_tokens.weight": bf16(normal("embed", (VOCAB, HIDDEN))),
               "model.norm.weight": bf16(gain("norm", HIDDEN))}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        tensors |= attention("", layer) | norms("", layer)
        for p in ("q_norm", "k_norm"):
            tensors[f"{at}self_attn.{p}.weight"] = bf16(gain(at + p, 32))
        tensors[f"{at}mlp.gate.weight"] = bf16(normal(at + "router", (EXPERTS, HIDDEN), 0.1))
        if fuse:
            gate_up, down = fused(layer)
            tensors[f"{at}mlp.experts.gate_up_proj"] = Tensor("BF16", gate_up)
            tensors[f"{at}mlp.experts.down_proj"] = Tensor("BF16", down)
            continue
        for e in range(EXPERTS):
            for p, w in expert(layer, e).items():
                tensors[f"{at}mlp.experts.{e}.{p}_proj.weight"] = w
    return tensors


def byte_tokenizer():
    """Byte-level BPE without merges: one token a byte, in GPT-2's alphabet."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in shown] + [chr(256 + i) for i in range(256 - len(shown))]
    alphabet = dict(zip(shown + [b for b in range(256) if b not in shown], letters))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False, "vocab": {alphabet[b]: b for b in range(256)}, "merges": []}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
            "decoder": byte_level, "model": model}


LLAMA4 = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "boi_token_index": 60,
    "eoi_token_index": 61,
    "image_token_index": 62,
    "model_type": "llama4",
    "text_config": {
        "attention_bias": False,
        "attention_chunk_size": 64,
        "attention_dropout": 0.0,
        "attn_temperature_tuning": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "interleave_moe_layer_step": 2,
        "intermediate_size": MOE,
        "intermediate_size_mlp": MOE,
        "max_position_embeddings": 512,
        "model_type": "llama4_text",
        "no_rope_layers": [1, 0],
        "num_attention_heads": 4,
        "num_experts_per_tok": 1,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 4,
        "num_local_experts": EXPERTS,
        "output_router_logits": False,
        "pad_token_id": 2,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 500000.0,
        "router_aux_loss_coef": 0.001,
        "router_jitter_noise": 0.0,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_qk_norm": True,
        "vocab_size": 64,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vision_config": {
        "attention_dropout": 0.0,
        "hidden_act": "gelu",
        "hidden_size": 32,
        "image_size": 16,
        "initializer_range": 0.02,
        "intermediate_size": 128,
        "model_type": "llama4_vision_model",
        "multi_modal_projector_bias": False,
        "norm_eps": 1e-05,
        "num_attention_heads": 2,
        "num_channels": 3,
        "num_hidden_layers": 1,
        "patch_size": 4,
        "pixel_shuffle_ratio": 0.5,
        "projector_dropout": 0.0,
        "projector_input_dim": 128,
        "projector_output_dim": 128,
        "rope_theta": 10000,
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "default",
        "vision_output_dim": 128,
    },
}


def llama4_vision():
    """The tower and the projector: some would suit 128x128 blocks, none may be quantized."""
    shapes = {"class_embedding": (32,), "positional_embedding_vlm": (17, 32),
              "patch_embedding.linear.weight": (32, 48),
              "vision_adapter.mlp.fc1.weight": (128, 128),
              "vision_adapter.mlp.fc2.weight": (128, 128)}
    linear = {f"self_attn.{p}_proj": (32, 32) for p in "qkvo"}
    linear |= {"mlp.fc1": (128, 32), "mlp.fc2": (32, 128)}
    at = "model.layers.0."
    for p, shape in linear.items():
        shapes |= {f"{at}{p}.weight": shape, f"{at}{p}.bias": shape[:1]}
    tensors = {f"vision_model.{p}": bf16(normal("vision." + p, s)) for p, s in shapes.items()}
    for p in ("layernorm_pre", "layernorm_post",
              f"{at}input_layernorm", f"{at}post_attention_layernorm"):
        tensors[f"vision_model.{p}.weight"] = bf16(gain("vision." + p, 32))
        tensors[f"vision_model.{p}.bias"] = bf16(normal(f"vision.{p}.bias", 32))
    tensors["multi_modal_projector.linear_1.weight"] = bf16(normal("projector", (HIDDEN, 128)))
    return tensors


def llama4():
    """Layer 0 dense; layer 1 has the experts of layer 1 of the other two, transposed."""
    lm = "language_model."
    tensors = llama4_vision()
    tensors |= {f"{lm}model.embed_tokens.weight": bf16(normal("embed", (64, HIDDEN))),
                f"{lm}model.norm.weight": bf16(gain("norm", HIDDEN)),
                f"{lm}lm_head.weight": bf16(normal("lm_head", (64, HIDDEN)))}
    for layer in range(LAYERS):
        tensors |= attention(lm, layer) | norms(lm, layer)
    for p, shape in PROJECTIONS:
        for at in ("model.layers.0.feed_forward.", "model.layers.1.feed_forward.shared_expert."):
            tensors[f"{lm}{at}{p}_proj.weight"] = bf16(weight(f"{at}{p}_proj", shape))
    at = f"{lm}model.layers.1.feed_forward."
    gate_up, down = (w.swapaxes(1, 2).copy() for w in fused(1))
    tensors[f"{at}router.weight"] = bf16(normal("model.layers.1.router", (EXPERTS, HIDDEN), 0.1))
    tensors[f"{at}experts.gate_up_proj"] = Tensor("BF16", gate_up)
    tensors[f"{at}experts.down_proj"] = Tensor("BF16", down)
    return tensors


def make_tiny_moe(out):
    write_checkpoint(out / "per-expert", qwen3_moe(fuse=False), lambda name: name in MOVED or
                     (name not in STAYED and (".layers.1." in name or name == "model.norm.weight")))
    write_checkpoint(out / "fused", qwen3_moe(fuse=True))
    write_checkpoint(out / "fused-transposed", llama4(),
                     lambda name: ".experts." in name or ".o_proj." in name)
    generation = {"do_sample": False, "max_new_tokens": 16}
    for variant, config in (("per-expert", QWEN3_MOE), ("fused", QWEN3_MOE_5),
                            ("fused-transposed", LLAMA4)):
        write_json(out / variant / "config.json", config)
        write_json(out / variant / "generation_config.json", generation)
        if config is not LLAMA4:
            write_json(out / variant / "tokenizer.json", byte_tokenizer())
            write_json(out / variant / "tokenizer_config.json", {
                "add_prefix_space": False, "model_max_length": 512,
                "tokenizer_class": "PreTrainedTokenizerFast"})


# odd-shapes

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


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/..").resolve()
    make_tiny_moe(out / "tiny-moe")
    make_odd_shapes(out / "odd-shapes")


if __name__ == "__main__":
    main()
