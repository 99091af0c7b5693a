# SPDX-License-Identifier: Apache-2.0
"""What the releases of some models write otherwise than transformers saves: names of tensors, and keys of config.json."""
import json
import pathlib
import re

import transformers as t
from safetensors.torch import load_file, save_file

# Scalings of rotary embeddings, as a release has them beside rope_theta.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"factor": 4.0, "original_max_position_embeddings": 64}


# What transformers writes by another name than the releases have.
def released_v4(found: re.Match) -> str:
    """transformers writes some of these names as they are in memory."""
    key = found[0].removeprefix("model.").replace("embed_tokens.", "embed.").replace("hc_head.hc_", "hc_head_")
    return key.replace(".attn.norm.", ".attn.kv_norm.")


RELEASED = {t.DeepseekV4ForCausalLM: ("^.+$", released_v4), t.Kimi_K25ForConditionalGeneration: (r"model\.blocks\.", "model.layers."),
            t.Qwen2_5OmniThinkerForConditionalGeneration: ("^", "thinker."), t.Qwen3OmniMoeThinkerForConditionalGeneration: ("^", "thinker."),
            t.KimiLinearForCausalLM: (r"\.block_sparse_moe\.(gate|up|down)_proj\.", r".mlp.\1_proj.")}
# Parts of a model that the releases have whole.
THINKERS = {t.Qwen2_5OmniThinkerForConditionalGeneration: "Qwen2_5OmniModel", t.Qwen3OmniMoeThinkerForConditionalGeneration: "Qwen3OmniMoeForConditionalGeneration"}
# Keys that transformers writes and the releases do not have: others say the same, or the defaults do.
UNWRITTEN = {"deepseek_v4, as released": ("compress_rates", "layer_types", "mlp_layer_types", "partial_rotary_factor", "rope_parameters"),
             "step3p5, as released": ("hidden_act", "layer_types", "mlp_layer_types", "n_routed_experts", "num_experts_per_tok", "num_key_value_heads",
                                      "num_local_experts", "num_sliding_attention_heads", "per_layer_config", "query_pre_attn_scalar", "rope_parameters"),
             "mimo_v2_flash, as released": ("layer_types", "mlp_layer_types", "rms_norm_eps", "rope_parameters", "sliding_window"),
             "glm5_next, as released": ("layer_types", "mlp_layer_types", "indexer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim", "linear_lower_bound"),
             "dots3_note, as released": ("layer_types", "mlp_layer_types", "per_layer_config", "rope_parameters", "shared_experts_intermediate_size", "sliding_window"),
             "inkling, as released": ("conv_kernel_size", "layer_types", "mlp_layer_types", "moe_intermediate_size"),
             "sarvam_mla, as released": ("n_routed_experts", "n_shared_experts", "n_group", "topk_group", "rope_parameters"),
             "kimi_linear": ("layer_types", "linear_conv_kernel_dim", "linear_head_dim", "linear_num_heads", "mlp_layer_types"),
             "kimi_linear, other keys": ("layer_types",),
             "bailing_hybrid": ("layer_types", "linear_conv_kernel_dim", "linear_num_heads", "mlp_layer_types"),
             "bailing_hybrid, as released": ("head_dim", "layer_types", "linear_conv_kernel_dim", "linear_num_heads", "mlp_layer_types", "model_max_length",
                                             "moe_renormalize", "num_expert_group", "num_experts_per_token")}
# Keys that the releases have in the place of those.
RELEASED_KEYS = {"deepseek_v4, as released": {
    "compress_ratios": [0, 4, 128, 4, 4, 0], "num_hash_layers": 2, "qk_rope_head_dim": 8, "topk_method": "noaux_tc", "expert_dtype": "fp4",
    "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 16, "beta_slow": 2}},
    "step3p5, as released": {
    "att_impl_type": "GQA", "max_seq_len": 512, "moe_every_n_layer": 1, "moe_layer_offset": 0, "moe_layers_enum": "1,2,3", "moe_num_experts": 6,
    "moe_router_activation": "sigmoid", "moe_top_k": 3, "need_fp32_gate": True, "norm_expert_weight": True, "num_attention_groups": 2,
    "num_nextn_predict_layers": 1, "sink": False, "use_head_wise_attn_gate": True, "use_moe": True, "use_moe_router_bias": True, "use_qk_norm": True,
    "use_rope_layers": [], "zero_centered": True, "layer_types": ["full_attention", "sliding_attention"] * 2 + ["sliding_attention"],
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 24, "true_head_dim": 24},
    "swiglu_limits": [0.0, 0.3, 0.0, 0.05, 0.0], "swiglu_limits_shared": [0.2, 0.0, 0.1, 0.4, 0.0], "rope_theta": [5e5, 1e3, 5e5, 1e3, 1e3],
    "partial_rotary_factors": [0.5, 1.0, 0.5, 1.0, 1.0], "yarn_only_types": ["full_attention"],
    "rope_scaling": LLAMA3},
    "sarvam_mla, as released": {
    "architectures": ["SarvamMLAForCausalLM"], "head_dim": 24, "q_head_dim": 24, "num_experts": 8, "num_shared_experts": 1, "rope_theta": 1e4,
    "rope_scaling": YARN | {"type": "deepseek_yarn", "mscale": 1.0, "mscale_all_dim": 1.0}},
    "glm5_next, as released": {
    "first_k_dense_replace": 3, "index_kpool_compress": True, "index_share_for_mtp_iteration": True, "index_skip_topk_offset": 2, "index_topk_freq": 1, "mhc": True,
    "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
    "linear_attn_config": {"full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7], "head_dim": 13, "num_heads": 5, "short_conv_kernel_size": 3,
                           "gate_lower_bound": -0.75, "safe_gate": True}},
    "dots3_note, as released": {
    "attention_gate_type": "headwise", "first_k_dense_replace": 1, "indexer_rope_interleave": True, "moe_layer_freq": 1, "moe_shared_expert_intermediate_size": 20,
    "rope_theta": 8e7, "scoring_func": "sigmoid", "sliding_window_size": 25, "swa_attention_gate_type": "headwise", "swa_head_dim": 16, "swa_kv_lora_rank": 28,
    "swa_num_attention_heads": 6, "swa_num_key_value_heads": 6, "swa_q_lora_rank": 20, "swa_qk_nope_head_dim": 10, "swa_qk_rope_head_dim": 6,
    "swa_rope_theta": 5e4, "swa_v_head_dim": 14, "topk_method": "noaux_tc", "use_dsa": True, "use_sliding_window": True},
    "inkling, as released": {
    "dense_intermediate_size": 160, "dense_mlp_idx": 1, "gate_activation": "sigmoid", "intermediate_size": 48, "local_layer_ids": [0, 2, 4], "model_max_length": 512,
    "norm_after_topk": True, "sconv_kernel_size": 4, "use_embed_norm": True, "use_gate_bias": True, "use_global_scale": True, "use_sconv": True},
    "mimo_v2_flash, as released": {
    "add_full_attention_sink_bias": False, "add_swa_attention_sink_bias": True, "attention_chunk_size": 128, "hybrid_block_size": None,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1], "layernorm_epsilon": 1e-5, "moe_layer_freq": [0, 1, 1, 1, 1, 1, 1], "n_shared_experts": None,
    "partial_rotary_factor": 0.334, "rope_theta": 5000000, "scoring_func": "sigmoid", "sliding_window": 20, "sliding_window_size": 19,
    "swa_head_dim": 24, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_rope_theta": 10000, "swa_v_head_dim": 20, "topk_method": "noaux_tc"},
    "bailing_hybrid, as released": {
    "architectures": ["BailingMoeV3ForCausalLM"], "max_position_embeddings": 512, "norm_topk_prob": True, "n_group": 4, "num_experts_per_tok": 3,
    "partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 6e6, "rope_type": "default"}, "rotary_dim": 4,
    "embedding_dropout": 0.0, "expert_swiglu_limit_list": None, "gated_attention_proj_granularity_type": "head_wise", "group_norm_size": 1,
    "linear_silu": True, "max_window_layers": 20, "moe_router_enable_expert_bias": True, "moe_shared_expert_intermediate_size": 48, "mtp_use_kda": False,
    "no_kda_lora": True, "num_kv_heads_for_linear_attn": 0, "output_dropout": 0.0, "q_lora_rank": None, "rope_interleave": True, "router_dtype": "fp32",
    "scale_router_input": False, "score_function": "sigmoid", "scoring_func": "sigmoid", "seq_aux": True, "share_expert_swiglu_limit_list": None,
    "topk_method": "noaux_tc", "up_proj_norm": False, "use_bias": False, "use_kda_lora": False, "use_mla_nope": False, "use_nGPT": False,
    "use_qk_norm": True, "use_qkv_bias": False, "value_norm": False}}


def rewrite(name: str, model_class: type, folder: pathlib.Path) -> None:
    """Makes a saved model what its release has."""
    if model_class in RELEASED:
        saved = load_file(folder / "model.safetensors")
        save_file({re.sub(*RELEASED[model_class], key): value for key, value in saved.items()}, folder / "model.safetensors",
                  {"format": "pt"})
    if model_class in THINKERS:
        thinker = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({"architectures": [THINKERS[model_class]], "thinker_config": thinker,
                                                        "model_type": thinker["model_type"].removesuffix("_thinker")}))
    if name in UNWRITTEN:
        config = json.loads((folder / "config.json").read_text())
        whole = config
        config = config.get("text_config", config)
        kept = {key: value for key, value in config.items() if key not in UNWRITTEN[name]} | RELEASED_KEYS.get(name, {})
        (folder / "config.json").write_text(json.dumps(whole | {"text_config": kept} if "text_config" in whole else kept))
