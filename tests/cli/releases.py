# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints laid out as other people's FP8 releases: names, types, shapes and configuration, as engines load them, and
damages that `verify` must name; damage.py writes them and asks.

releases.py list                  their names
releases.py make NAME DIR         the release in DIR
releases.py check                 FP8CONV verify passes each, for each engine that reads it, and names each damage

Sizes are cut to a few hundred, with the remainders by 128 that decide.
"""
import pathlib
import sys
import tempfile

import damage
from damage import listed, plain, reshaped, top_level, unlisted, without

H, I, E, V = 256, 128, 2, 512           # hidden, expert width, experts, vocabulary
L, LL = "model.layers.", "model.language_model.layers."
RELEASES = {}


def release(function):
    RELEASES[function.__name__] = function
    return function


# ---------------------------------------------------------------- tensors: {name: (dtype, shape)}

def bf16(*named, dtype="BF16"):
    return {name: (dtype, shape) for name, shape in named}


def module(name, shape, *scales, dtype="F8_E4M3"):
    """A weight, and its scales: (suffix of the module, dtype, shape)."""
    return {name + ".weight": (dtype, shape), **{name + suffix: (kind, s) for suffix, kind, s in scales}}


def grid(shape):
    return [*shape[:-2], -(-shape[-2] // 128), -(-shape[-1] // 128)]


def blocks(name, shape, word=".weight_scale_inv", dtype="F32"):
    return module(name, shape, (word, dtype, grid(shape)))


def channel(name, shape, dtype="BF16"):
    return module(name, shape, (".weight_scale", dtype, [*shape[:-1], 1]))


def static(name, shape, scale=".weight_scale", act=".input_scale", dtype="F32", size=()):
    return module(name, shape, (scale, dtype, list(size)), (act, dtype, list(size)))


def each(make, p, *named):
    return {t: v for name, shape in named for t, v in make(p + name, shape).items()}


ATTENTION = (("q_proj", [256, H]), ("k_proj", [128, H]), ("v_proj", [128, H]), ("o_proj", [H, 256]))
MLA = (("q_a_proj", [256, H]), ("q_b_proj", [384, 256]), ("kv_a_proj_with_mqa", [192, H]), ("kv_b_proj", [512, 128]), ("o_proj", [H, 256]))
MLP = (("gate_proj", [I, H]), ("up_proj", [I, H]), ("down_proj", [H, I]))
W = (("w1", [I, H]), ("w3", [I, H]), ("w2", [H, I]))


def experts(make, p, named=MLP, n=E):
    return {t: v for e in range(n) for t, v in each(make, f"{p}{e}.", *named).items()}


def ends(prefix="model.", head="lm_head.weight", embed="embed_tokens"):
    return bf16((prefix + embed + ".weight", [V, H]), (prefix + "norm.weight", [H]), (head, [V, H]))


def config(kind, arch, quantization, **more):
    return {"model_type": kind, "architectures": [arch], "hidden_size": H, "num_experts": E, "head_dim": 128, **more,
            "quantization_config": quantization}


def nested(kind, arch, text, quantization):
    return {"model_type": kind, "architectures": [arch], "text_config": {"model_type": text, "hidden_size": H},
            "quantization_config": quantization}


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}


def ct(strategy, ignore, targets=("Linear",), act=None, **weights):
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed", "version": "0.12.2",
            "global_compression_ratio": None, "kv_cache_scheme": None, "ignore": ignore, "config_groups": {"group_0": {
                "targets": list(targets), "output_activations": None, "input_activations": act,
                "weights": {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False, "strategy": strategy, "actorder": None,
                            "group_size": None, "block_structure": None, "observer": "minmax", "observer_kwargs": {}, **weights}}}}


TOKEN = {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": True, "strategy": "token", "observer": None, "observer_kwargs": {}}
GROUP = TOKEN | {"strategy": "group", "group_size": 128}

# ---------------------------------------------------------------- the releases: configuration, tensors, engines, damages

@release
def deepseek_v3():
    """No list: engines know the router, the heads and the MTP projection."""
    t = ends() | each(blocks, L + "3.self_attn.", *MLA) | experts(blocks, L + "3.mlp.experts.") | each(blocks, L + "3.mlp.shared_experts.", *MLP)
    t |= bf16((L + "3.mlp.gate.weight", [E, H]), (L + "3.self_attn.q_a_layernorm.weight", [256]), (L + "61.eh_proj.weight", [H, 2 * H]),
              (L + "61.enorm.weight", [H]), (L + "61.embed_tokens.weight", [V, H]), (L + "61.shared_head.head.weight", [V, H]))
    t |= bf16((L + "3.mlp.gate.e_score_correction_bias", [E]), dtype="F32")
    return config("deepseek_v3", "DeepseekV3ForCausalLM", dict(FP8), n_routed_experts=E), t, ("vllm", "sglang", "trtllm"), (
        plain(L + "3.self_attn.o_proj.weight"), plain(L + "3.mlp.experts.1.up_proj.weight"), without(L + "3.self_attn.q_b_proj.weight_scale_inv"))


def v4(expert, dtype, expert_dtype):
    def blocks_v4(name, shape):
        return blocks(name, shape, ".scale", dtype)
    a = "layers.0.attn."
    t = bf16(("embed.weight", [V, H]), ("head.weight", [V, H]), ("norm.weight", [H]), ("layers.0.attn_norm.weight", [H]), (a + "compressor.wkv.weight", [128, H]),
             (a + "compressor.wgate.weight", [128, H]), (a + "indexer.weights_proj.weight", [64, H]), (a + "indexer.compressor.wkv.weight", [128, H]),
             (a + "indexer.compressor.wgate.weight", [128, H]), ("layers.0.ffn.gate.weight", [E, H]))
    t |= bf16(("hc_head_fn", [4, 4 * H]), ("layers.0.hc_attn_fn", [24, 4 * H]), (a + "attn_sink", [64]), (a + "compressor.ape", [4, 128]), dtype="F32")
    t |= {"layers.0.ffn.gate.tid2eid": ("I64", [V, 2])}
    t |= each(blocks_v4, a, ("wq_a", [256, H]), ("wq_b", [512, 256]), ("wkv", [128, H]), ("wo_a", [256, 512]), ("wo_b", [H, 256]), ("indexer.wq_b", [256, 256]))
    t |= each(blocks_v4, "layers.0.ffn.shared_experts.", *W) | experts(expert, "layers.0.ffn.experts.", W)
    t |= each(blocks_v4, "mtp.0.", ("e_proj", [H, H]), ("h_proj", [H, H]))
    quantization = FP8 | ({"scale_fmt": "ue8m0"} if dtype == "F8_E8M0" else {})
    c = config("deepseek_v4", "DeepseekV4ForCausalLM", quantization, n_routed_experts=E, **({"expert_dtype": expert_dtype} if expert_dtype else {}))
    return c, t, ("vllm", "sglang"), (plain(a + "wo_b.weight"), without(a + "wkv.scale"), reshaped(a + "wkv.scale", [4, 4]))


def fp4(name, shape):
    return module(name, [shape[0], shape[1] // 2], (".scale", "F8_E8M0", [shape[0], shape[1] // 32]), dtype="I8")


@release
def deepseek_v4():
    """Experts in FP4, said by no key; scales are exponents."""
    c, t, engines, damages = v4(fp4, "F8_E8M0", None)
    return c, t, engines, (*damages, without("layers.0.ffn.experts.1.w1.scale"))


@release
def deepseek_v4_fp8():
    return v4(lambda name, shape: blocks(name, shape, ".scale"), "F32", "fp8")


TOWERS = ["model.vision_tower", "model.multi_modal_projector", "lm_head"]


@release
def mistral_small_4():
    """Static, one scale for a tensor and one for each expert of a stack."""
    def tensor(name, shape):
        return static(name, shape, ".weight_scale_inv", ".activation_scale", "BF16")
    p = LL + "0.mlp.experts."
    t = ends("model.language_model.") | each(tensor, LL + "0.self_attn.", *MLA) | each(tensor, LL + "0.mlp.shared_experts.", *MLP)
    t |= {p + n: ("F8_E4M3", s) for n, s in (("gate_up_proj", [E, 2 * I, H]), ("down_proj", [E, H, I]))}
    t |= {p + n + s: ("BF16", shape) for n in ("gate_up_proj", "down_proj") for s, shape in (("_scale_inv", [E, 1, 1]), ("_activation_scale", [E]))}
    t |= bf16((LL + "0.mlp.gate.weight", [E, H]), ("model.vision_tower.transformer.layers.0.attention.q_proj.weight", [128, 128]),
              ("model.multi_modal_projector.linear_1.weight", [H, 128]))
    quantization = {"quant_method": "fp8", "activation_scheme": "static", "dequantize": False, "weight_block_size": None,
                    "modules_to_not_convert": TOWERS + ["model.language_model.layers.0.mlp.gate"]}
    return nested("mistral3", "Mistral3ForConditionalGeneration", "mistral4", quantization), t, ("vllm", "transformers"), (
        plain(LL + "0.self_attn.o_proj.weight"), without(p + "down_proj_scale_inv"), without(LL + "0.self_attn.o_proj.activation_scale", "input-scale-missing"),
        unlisted("model.vision_tower", "modules_to_not_convert"))


@release
def mistral_native():
    """Mistral's own files: qscale_weight, qscale_act, params.json."""
    def tensor(name, shape):
        return static(name, shape, ".qscale_weight", ".qscale_act", "BF16")
    p = "layers.0."
    t = each(tensor, p + "attention.", ("wq_a", [256, H]), ("wq_b", [384, 256]), ("wkv_a_with_mqa", [192, H]), ("wkv_b", [512, 128]), ("wo", [H, 256]))
    t |= experts(tensor, p + "experts.", W) | each(tensor, p + "shared_experts.", *W)
    t |= bf16(("tok_embeddings.weight", [V, H]), ("output.weight", [V, H]), ("norm.weight", [H]), (p + "gate.weight", [E, H]),
              ("vision_encoder.transformer.layers.0.attention.wq.weight", [128, 128]), ("patch_merger.merging_layer.weight", [128, 512]))
    return {"params.json": {"dim": H, "n_layers": 1, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}}, t, ("vllm",), (
        plain(p + "attention.wo.weight"), without(p + "attention.wo.qscale_weight"))


@release
def qwen3_8_flash_next():
    """An embedding table in FP8, with one scale for all of its parts."""
    t = ends("model.language_model.") | each(blocks, LL + "3.self_attn.", *ATTENTION) | experts(blocks, LL + "0.mlp.experts.") | each(blocks, LL + "0.mlp.shared_expert.", *MLP)
    t |= each(blocks, LL + "0.linear_attn.", ("in_proj_qkv", [768, H]), ("in_proj_z", [256, H]), ("out_proj", [H, 256]))
    t |= blocks(LL + "3.self_attn.indexer.index_qk_proj", [384, H])
    ple = LL + "1.ple."
    t |= {f"{ple}ple_embedding.ngram_embedding.shard_{n}.weight": ("F8_E4M3", [384, 32]) for n in range(2)}
    t |= {ple + "ple_embedding.ngram_embedding.weight_scale": ("BF16", [1])}
    kept = [LL + "0.linear_attn.in_proj_a", LL + "0.linear_attn.in_proj_b", LL + "0.mlp.gate", LL + "0.mlp.shared_expert_gate", ple + "key_proj", ple + "value_proj",
            LL + "0.attn_hyper_connection.input_mix_weight_down", "model.visual.blocks.0.attn.qkv", "model.visual.merger.linear_fc1", "lm_head"]
    t |= bf16(*((m + ".weight", [128, H]) for m in kept if m != "lm_head"), (LL + "0.linear_attn.conv1d.weight", [768, 1, 4]), (LL + "0.linear_attn.A_log", [32]),
              (LL + "0.attn_hyper_connection.hc_norm.weight", [4 * H]), (ple + "conv1d.weight", [4 * H, 1, 4]))
    quantization = FP8 | {"modules_to_not_convert": kept + [LL + "0.linear_attn.conv1d"], "modules_to_convert": ["ngram_embedding"]}
    return nested("qwen4_exp", "Qwen4ExpForConditionalGeneration", "qwen4_exp_text", quantization), t, ("vllm", "sglang", "transformers"), (
        unlisted(ple + "key_proj", "modules_to_not_convert"), without(ple + "ple_embedding.ngram_embedding.weight_scale"),
        plain(LL + "3.self_attn.o_proj.weight"), plain(LL + "3.self_attn.indexer.index_qk_proj.weight"),
        plain(ple + "ple_embedding.ngram_embedding.shard_1.weight"))


@release
def step_3_5():
    """Routed experts alone, in stacks that stay 3-D."""
    p = L + "3."
    t = ends() | each(blocks, p + "moe.", ("gate_proj", [E, I, H]), ("up_proj", [E, I, H]), ("down_proj", [E, H, I]))
    kept = [p + "self_attn.q_proj", p + "self_attn.k_proj", p + "self_attn.v_proj", p + "self_attn.o_proj", p + "self_attn.g_proj", p + "moe.gate",
            p + "share_expert.gate_proj", p + "share_expert.up_proj", p + "share_expert.down_proj", L + "45.eh_proj", "lm_head"]
    t |= bf16(*((m + ".weight", [128, H]) for m in kept if m != "lm_head"), (p + "input_layernorm.weight", [H]))
    t |= bf16((p + "moe.router_bias", [E]), dtype="F32")
    return config("step3p5", "Step3p5ForCausalLM", FP8 | {"modules_to_not_convert": kept}), t, ("vllm", "sglang"), (
        without(p + "moe.up_proj.weight_scale_inv"), unlisted(p + "self_attn.g_proj", "modules_to_not_convert"), plain(p + "moe.down_proj.weight"),
        reshaped(p + "moe.up_proj.weight_scale_inv", [E, 3, 3]), listed(p + "moe.experts", "modules_to_not_convert", "config-ignore"))


B = "backbone.layers."


def nemotron(kept):
    t = bf16(("backbone.embeddings.weight", [V, H]), ("backbone.norm_f.weight", [H]), ("lm_head.weight", [V, H]), (B + "0.mixer.conv1d.weight", [256, 1, 4]),
             (B + "0.mixer.A_log", [32]), (B + "1.mixer.gate.weight", [E, H]), *((m + ".weight", s) for m, s in kept))
    t |= bf16((B + "1.mixer.gate.e_score_correction_bias", [E]), dtype="F32")
    t |= each(static, B + "0.mixer.", ("in_proj", [640, H]), ("out_proj", [H, 256])) | experts(static, B + "1.mixer.experts.", (("up_proj", [192, H]), ("down_proj", [H, 192])))
    return t | each(static, B + "1.mixer.shared_experts.", ("up_proj", [384, H]), ("down_proj", [H, 384]))


NEMO_ATTENTION = [(B + "2.mixer.q_proj", [256, H]), (B + "2.mixer.k_proj", [128, H]), (B + "2.mixer.v_proj", [128, H]), (B + "2.mixer.o_proj", [H, 256])]
MODELOPT_GROUP = {"group_0": {"input_activations": {"dynamic": False, "num_bits": 8, "type": "float"}, "weights": {"dynamic": False, "num_bits": 8, "type": "float"},
                              "targets": ["Linear"]}}


@release
def nemotron_3_nano():
    """ModelOpt, one scale for a tensor, static; a list of globs."""
    t = nemotron(NEMO_ATTENTION) | {B + f"2.mixer.{w}_proj.{w}_scale": ("F32", []) for w in "kv"}
    kept = ["lm_head", "backbone.embeddings", "*.mixer.conv1d*", "*.mixer.gate*"] + [m for m, _ in NEMO_ATTENTION]
    quantization = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": kept, "config_groups": MODELOPT_GROUP, "producer": {"name": "modelopt", "version": "0.29.0"},
                    "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}
    other = {"producer": quantization["producer"], "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": kept}}
    return {"config.json": config("nemotron_h", "NemotronHForCausalLM", quantization), "hf_quant_config.json": other}, t, ("vllm", "sglang", "trtllm"), (
        plain(B + "0.mixer.out_proj.weight"), without(B + "1.mixer.experts.0.up_proj.input_scale", "input-scale-missing"),
        without(B + "1.mixer.experts.0.up_proj.weight_scale"), plain(B + "1.mixer.experts.1.down_proj.weight"))


@release
def nemotron_3_super():
    """ModelOpt, several algorithms: experts in NVFP4, the rest in FP8, each module named."""
    latent = [(B + "1.mixer.fc1_latent_proj", [128, H]), (B + "1.mixer.fc2_latent_proj", [H, 128]), ("mtp.layers.0.mixer.q_proj", [256, H])]
    t = nemotron(NEMO_ATTENTION + latent)
    for name in [n for n in t if ".experts." in n]:
        del t[name]
    for e in range(E):
        for n, (rows, cols) in (("up_proj", (192, 128)), ("down_proj", (128, 192))):
            t |= module(f"{B}1.mixer.experts.{e}.{n}", [rows, cols // 2], (".weight_scale", "F8_E4M3", [rows, cols // 16]), (".weight_scale_2", "F32", []),
                        (".input_scale", "F32", []), dtype="U8")
    layers = {n.removesuffix(".weight"): {"quant_algo": "NVFP4", "group_size": 16} if d == "U8" else {"quant_algo": "FP8"}
              for n, (d, _) in t.items() if n.endswith(".weight") and d in ("U8", "F8_E4M3")}
    kept = ["lm_head", "*mixer.conv1d*", "mtp*"] + [m for m, _ in NEMO_ATTENTION + latent[:2]]
    quantization = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "ignore": kept,
                    "producer": {"name": "modelopt", "version": "0.44.0"}}
    return config("nemotron_h", "NemotronHForCausalLM", quantization), t, ("vllm",), (
        plain(B + "0.mixer.out_proj.weight"), without(B + "0.mixer.in_proj.weight_scale"),
        ("an FP8 weight that quantized_layers does not have", "dtype-mismatch",
         lambda c, t: c["quantization_config"]["quantized_layers"].pop(B + "0.mixer.in_proj")))


def qwen3_tensors(make, tied=False):
    t = ends() | each(make, L + "0.self_attn.", *ATTENTION) | each(make, L + "0.mlp.", *((n, [384, H] if n != "down_proj" else [H, 384]) for n, _ in MLP))
    if tied:
        del t["lm_head.weight"]
    return t | bf16((L + "0.input_layernorm.weight", [H]), (L + "0.self_attn.q_norm.weight", [128]))


@release
def qwen3_fp8():
    """Qwen's list names norms and a tied lm_head too; scales are BF16."""
    t = qwen3_tensors(lambda name, shape: blocks(name, shape, dtype="BF16"), tied=True)
    kept = ["lm_head", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"]
    return config("qwen3", "Qwen3ForCausalLM", FP8 | {"modules_to_not_convert": kept}, tie_word_embeddings=True), t, ("vllm", "sglang", "trtllm", "transformers"), (
        plain(L + "0.self_attn.o_proj.weight"), listed(L + "0.mlp.down_proj", "modules_to_not_convert"), top_level("proj"),
        listed("model.layers.77.mlp.gate", "modules_to_not_convert", "config-ignore"))


@release
def qwen3_moe_fp8():
    t = ends() | each(blocks, L + "0.self_attn.", *ATTENTION) | experts(blocks, L + "0.mlp.experts.") | bf16((L + "0.mlp.gate.weight", [E, H]))
    kept = ["lm_head", L + "0.mlp.gate", L + "0.input_layernorm"]
    return config("qwen3_moe", "Qwen3MoeForCausalLM", FP8 | {"modules_to_not_convert": kept}), t, ("vllm", "sglang", "trtllm", "transformers"), (
        unlisted(L + "0.mlp.gate", "modules_to_not_convert"), listed(L + "0.mlp.experts.1.up_proj", "modules_to_not_convert"),
        listed(L + "0.mlp.experts.7.up_proj", "modules_to_not_convert", "config-ignore"))


@release
def llmcompressor_dynamic():
    """llm-compressor's FP8_DYNAMIC of a multimodal model: channels, regular expressions in the list."""
    t = ends("model.language_model.") | each(channel, LL + "0.self_attn.", *ATTENTION) | experts(channel, LL + "0.mlp.experts.")
    t |= bf16((LL + "0.mlp.gate.weight", [E, H]), ("model.visual.blocks.0.attn.qkv.weight", [384, 128]), ("model.visual.merger.linear_fc1.weight", [512, 512]))
    ignore = ["re:.*lm_head", "re:visual.*", "re:model.visual.*", "re:.*mlp.gate$", "re:.*mtp.*"]
    return nested("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", ct("channel", ignore, act=TOKEN)), t, ("vllm", "sglang"), (
        unlisted("re:.*mlp.gate$"), unlisted("re:model.visual.*"), plain(LL + "0.self_attn.o_proj.weight"), listed("re:.*o_proj$"),
        reshaped(LL + "0.self_attn.o_proj.weight_scale", [H]))


@release
def llmcompressor_static():
    t = qwen3_tensors(lambda name, shape: static(name, shape, dtype="BF16", size=[1]))
    t |= {L + f"0.self_attn.{w}_scale": ("BF16", [1]) for w in "kv"}
    quantization = ct("tensor", ["lm_head"], act=TOKEN | {"strategy": "tensor", "dynamic": False, "observer": "minmax"})
    quantization["kv_cache_scheme"] = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False}
    return config("qwen3", "Qwen3ForCausalLM", quantization), t, ("vllm", "sglang", "transformers"), (
        plain(L + "0.mlp.down_proj.weight"), without(L + "0.mlp.down_proj.input_scale", "input-scale-missing"), unlisted("lm_head"),
        without(L + "0.self_attn.v_scale", "kv-scale-pair"))


@release
def autofp8_static():
    """AutoFP8's: a list of full names, scales of [], and scales of q, k and v that differ."""
    t = qwen3_tensors(static)
    quantization = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
    return config("qwen3", "Qwen3ForCausalLM", quantization), t, ("vllm", "sglang"), (
        plain(L + "0.mlp.down_proj.weight"), reshaped(L + "0.self_attn.o_proj.weight_scale", [1, 1]),
        ("blocks that it has not", "config-key", lambda c, t: c["quantization_config"].update(weight_block_size=[128, 128])))


@release
def quark_fp8():
    """AMD's: quant_method quark, one scale for a tensor, a list of names and expressions."""
    t = qwen3_tensors(static)
    tensor = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False, "observer_cls": "PerTensorMinMaxObserver"}
    quantization = {"quant_method": "quark", "quant_mode": "eager_mode", "layer_type_quant_config": {}, "layer_quant_config": {},
                    "global_quant_config": {"weight": tensor, "input_tensors": tensor, "output_tensors": None, "bias": None}, "exclude": ["lm_head"],
                    "export": {"kv_cache_group": [], "pack_method": "reorder", "weight_format": "real_quantized"}}
    return config("qwen3", "Qwen3ForCausalLM", quantization), t, ("vllm", "sglang"), (
        plain(L + "0.mlp.down_proj.weight"), unlisted("lm_head", "exclude"), without(L + "0.mlp.down_proj.input_scale", "input-scale-missing"),
        ("a list that is a string", "config-key", lambda c, t: c["quantization_config"].update(exclude="lm_head")))


@release
def quark_layers():
    """AMD's with an FP8 cache: layers of other schemes by patterns, scales of the outputs of k_proj and v_proj."""
    t = qwen3_tensors(lambda name, shape: module(name, shape, (".weight_scale", "F32", [])))
    t |= module(L + "0.mlp.down_proj", [H, 384], (".weight_scale", "F32", [H]))
    t |= {L + f"0.self_attn.{w}_proj.output_scale": ("F32", []) for w in "kv"}
    tensor, row = ({"dtype": "fp8_e4m3", "qscheme": scheme, "is_dynamic": False} for scheme in ("per_tensor", "per_channel"))
    inputs = tensor | {"is_dynamic": True}

    def layer(weight, outputs=None):
        return {"weight": weight, "input_tensors": inputs, "output_tensors": outputs, "bias": None}

    quantization = {"quant_method": "quark", "layer_type_quant_config": {}, "global_quant_config": layer(tensor), "exclude": ["lm_head"],
                    "layer_quant_config": {"*k_proj": layer(tensor, tensor), "*v_proj": layer(tensor, tensor), "*down_proj": layer(row)},
                    "export": {"kv_cache_group": ["*k_proj", "*v_proj"], "pack_method": "reorder", "weight_format": "real_quantized"}}

    def layers(config):
        return config["quantization_config"]["layer_quant_config"]

    def no_cache(config, t):
        for w in "kv":
            del t[L + f"0.self_attn.{w}_proj.output_scale"]

    return config("qwen3", "Qwen3ForCausalLM", quantization), t, ("vllm",), (
        plain(L + "0.mlp.down_proj.weight"), without(L + "0.self_attn.v_proj.output_scale", "kv-scale-pair"),
        ("no scale of the cache", "kv-scale-missing", no_cache),
        ("rows that are not said", "scale-shape", lambda c, t: layers(c).pop("*down_proj")),
        ("rows that are said of all", "scale-shape", lambda c, t: layers(c).update({"*": layer(row)})),
        ("integers that are FP8", "config-key", lambda c, t: layers(c).update({"*down_proj": layer(row | {"dtype": "int8"})})),
        ("a cache of no layer", "config-key", lambda c, t: [layers(c).pop(f"*{w}_proj") for w in "kv"]))


@release
def older_key():
    """compressed-tensors under the key of 2024."""
    t = qwen3_tensors(channel)
    content = config("qwen3", "Qwen3ForCausalLM", ct("channel", ["lm_head"], act=TOKEN))
    content["compression_config"] = content.pop("quantization_config")
    return content, t, ("vllm", "sglang"), (plain(L + "0.mlp.down_proj.weight"), without(L + "0.mlp.down_proj.weight_scale"))


@release
def mistral_compressed():
    """Mistral's own layout by llm-compressor: the configuration is in params.json."""
    p = "layers.0."
    def tensor(name, shape):
        return module(name, shape, (".qscale_weight", "BF16", [shape[0], 1]))

    def unsorted(_, tensors):
        tensors[p + "attention.wk.weight_scale"] = tensors.pop(p + "attention.wk.qscale_weight")

    t = each(tensor, p + "attention.", ("wq", [256, H]), ("wk", [128, H])) | each(channel, p + "attention.", ("wv", [128, H]), ("wo", [H, 256])) | each(channel, p + "feed_forward.", *W)
    t |= bf16(("tok_embeddings.weight", [V, H]), ("output.weight", [V, H]), ("norm.weight", [H]))
    quantization = ct("channel", ["output", "lm_head"], act=TOKEN)
    return {"params.json": {"dim": H, "n_layers": 1, "n_heads": 2, "head_dim": 128, "quantization": quantization}}, t, ("vllm",), (
        plain(p + "attention.wo.weight"), without(p + "attention.wo.weight_scale"),
        ("a scale of each row of wk, which vLLM does not sort as the rows", "not-loaded", unsorted))


@release
def redhat_blocks():
    """RedHat's FP8_BLOCK: BF16 scales, each module of the list by its name.  transformers stops at blocks of experts."""
    def block(name, shape):
        return blocks(name, shape, ".weight_scale", "BF16")
    t = ends() | each(block, L + "0.self_attn.", *ATTENTION) | experts(block, L + "0.mlp.experts.") | bf16((L + "0.mlp.gate.weight", [E, H]))
    quantization = ct("block", ["lm_head", L + "0.mlp.gate"], act=GROUP, block_structure=[128, 128])
    return config("qwen3_moe", "Qwen3MoeForCausalLM", quantization), t, ("vllm", "sglang"), (
        unlisted(L + "0.mlp.gate"), plain(L + "0.mlp.experts.0.up_proj.weight"), without(L + "0.self_attn.o_proj.weight_scale"))


def one_layer_kept(make, word):
    """The experts of layer 0 in BF16, under Mixtral's names; layer 1's in FP8."""
    p = "block_sparse_moe.experts."
    return ends() | bf16(*((f"{L}0.{p}{e}.{n}.weight", s) for e in range(E) for n, s in W), (L + "0.block_sparse_moe.gate.weight", [E, H])) | experts(
        lambda name, shape: make(name, shape, word), L + "1." + p, W)


@release
def experts_kept():
    """vLLM and transformers ask for the experts of a layer by the prefix alone."""
    kept = ["lm_head", L + "0.block_sparse_moe.gate", L + "0.block_sparse_moe.experts"]
    return config("mixtral", "MixtralForCausalLM", FP8 | {"modules_to_not_convert": kept}), one_layer_kept(blocks, ".weight_scale_inv"), ("vllm", "sglang", "transformers"), (
        unlisted(kept[2], "modules_to_not_convert"), listed(L + "2.block_sparse_moe.experts", "modules_to_not_convert", "config-ignore"))


@release
def experts_kept_compressed():
    """vLLM asks for expert 0 by Llama's words, whatever the checkpoint calls it."""
    p = L + "0.block_sparse_moe.experts."
    kept = ["lm_head", L + "0.block_sparse_moe.gate", *(f"{p}{e}.{n}" for e in range(E) for n, _ in W), *(p + "0." + n for n, _ in MLP)]
    quantization = ct("block", kept, act=GROUP, block_structure=[128, 128])
    return config("mixtral", "MixtralForCausalLM", quantization), one_layer_kept(blocks, ".weight_scale"), ("vllm", "sglang"), (
        unlisted(p + "0.gate_proj"), unlisted(p + "0.down_proj"), unlisted(p + "1.w2"), listed(p + "1.gate_proj", kind="config-ignore"))


@release
def experts_not_targeted():
    """What no group has, experts too, needs no name."""
    t = one_layer_kept(blocks, ".weight_scale")
    t |= each(lambda name, shape: blocks(name, shape, ".weight_scale"), L + "0.self_attn.", *ATTENTION)
    quantization = ct("block", [], targets=["re:.*self_attn.*", "re:.*layers\\.1\\..*"], act=GROUP, block_structure=[128, 128])
    return config("mixtral", "MixtralForCausalLM", quantization), t, ("vllm", "sglang"), (
        ("targets of these too", "dtype-mismatch", lambda c, t: c["quantization_config"]["config_groups"]["group_0"]["targets"].append("re:.*experts.*")),)


@release
def minimax_m2():
    """A list of last segments."""
    t = ends() | each(blocks, L + "0.self_attn.", *ATTENTION) | experts(blocks, L + "0.block_sparse_moe.experts.", W)
    t |= bf16((L + "0.block_sparse_moe.gate.weight", [E, H]), (L + "0.self_attn.q_norm.weight", [256]))
    t |= bf16((L + "0.block_sparse_moe.e_score_correction_bias", [E]), dtype="F32")
    quantization = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "float8_e4m3fn", "weight_block_size": [128, 128],
                    "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]}
    return config("minimax_m2", "MiniMaxM2ForCausalLM", quantization), t, ("vllm", "sglang", "transformers"), (
        unlisted("gate", "modules_to_not_convert"), plain(L + "0.self_attn.o_proj.weight"), listed("w1", "modules_to_not_convert"))


@release
def kimi_k2_compressed():
    """Experts in FP8 blocks by explicit targets, attention in BF16: what no group names needs no name."""
    t = ends() | bf16(*((L + "1.self_attn." + n + ".weight", s) for n, s in MLA), (L + "1.mlp.gate.weight", [E, H]))
    t |= experts(lambda name, shape: blocks(name, shape, ".weight_scale", "BF16"), L + "1.mlp.experts.")
    quantization = ct("block", ["lm_head"], targets=["re:.*mlp\\.experts\\..*"], act=GROUP, block_structure=[128, 128])
    return config("kimi_k2", "DeepseekV3ForCausalLM", quantization, n_routed_experts=E), t, ("vllm", "sglang"), (
        plain(L + "1.mlp.experts.0.up_proj.weight"),
        ("targets of other experts", "dtype-mismatch", lambda c, t: c["quantization_config"]["config_groups"]["group_0"].update(targets=["re:.*layers\\.2\\..*"])))


@release
def kimi_k2_5():
    """Moonshot's INT4 experts, packed, beside BF16: nothing is FP8 here, and nothing is said of FP8 weights."""
    t = ends("language_model.model.", "language_model.lm_head.weight") | bf16(*(("language_model.model.layers.1.self_attn." + n + ".weight", s) for n, s in MLA))
    t |= each(lambda name, shape: blocks(name, shape, ".weight_scale", "BF16"), "language_model.model.layers.1.mlp.shared_experts.", *MLP)
    for e in range(E):
        for n, (rows, cols) in MLP:
            p = f"language_model.model.layers.1.mlp.experts.{e}.{n}."
            t |= {p + "weight_packed": ("I32", [rows, cols // 8]), p + "weight_scale": ("BF16", [rows, cols // 32]), p + "weight_shape": ("I32", [2])}
    int4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False}
    quantization = ct("block", ["re:.*lm_head", "re:.*self_attn.*"], targets=["re:.*shared_experts.*"], act=GROUP, block_structure=[128, 128])
    quantization["format"] = "mixed-precision"
    quantization["config_groups"]["group_0"]["format"] = "float-quantized"
    quantization["config_groups"]["group_1"] = {"targets": ["re:.*mlp\\.experts\\..*"], "weights": int4, "input_activations": None, "output_activations": None,
                                                "format": "pack-quantized"}
    return nested("kimi_k25", "KimiK25ForConditionalGeneration", "kimi_k2", quantization), t, ("vllm",), (
        plain("language_model.model.layers.1.mlp.shared_experts.up_proj.weight"),
        without("language_model.model.layers.1.mlp.shared_experts.up_proj.weight_scale"))


def main():
    command, *rest = sys.argv[1:]
    if command == "list":
        print(*RELEASES, sep="\n")
    elif command == "make":
        damage.write(pathlib.Path(rest[1]), *RELEASES[rest[0]]()[:2])
    elif command == "check":
        with tempfile.TemporaryDirectory() as tmp:
            damage.check(RELEASES, pathlib.Path(tmp))


if __name__ == "__main__":
    main()
