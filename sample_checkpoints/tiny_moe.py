# SPDX-License-Identifier: Apache-2.0
"""The checkpoint tiny-moe: the same experts one by one, fused, and fused the other way round."""
import numpy as np

from checkpoint import Tensor, bf16, gain, normal, weight, write_checkpoint, write_json

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
