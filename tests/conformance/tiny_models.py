# SPDX-License-Identifier: Apache-2.0
"""Models of every architecture that `calibrate` knows, small and random, as transformers writes them."""
import pathlib
import sys

import torch
import transformers as t
from safetensors.torch import save_file

import released

SIZES = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 512, "initializer_range": 0.2}
LLAMA3 = released.LLAMA3 | {"rope_theta": 5e5}
NTK_ALPHA = {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0, "factor": 1.0}
YARN = released.YARN | {"rope_type": "yarn", "rope_theta": 1e4}
GROWN_QUERIES = YARN | {"mscale": 0.8, "mscale_all_dim": 1.2, "llama_4_scaling_beta": 0.3, "max_position_embeddings": 512}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "short_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 3.0],
            "long_factor": [1.0, 1.5, 2.0, 4.0, 7.0, 12.0]}
EXPERTS = {"num_experts_per_tok": 3, "moe_intermediate_size": 48}
GROUPS = EXPERTS | {"n_routed_experts": 8, "num_local_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
                    "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 1.5}
LATENT = {"num_key_value_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12}
# With few heads, a key often has no score above 0 in any of them, and of equal scores any may be chosen.
INDEXER = {"q_lora_rank": 24, "index_n_heads": 12, "index_head_dim": 20, "index_topk": 20}
V4 = {"num_hidden_layers": 5, "num_key_value_heads": 1, "head_dim": 32, "partial_rotary_factor": 0.25, "q_lora_rank": 24, "o_groups": 2, "o_lora_rank": 20,
      "moe_intermediate_size": 48, "n_routed_experts": 6, "num_experts_per_tok": 3, "swiglu_limit": 0.7, "sliding_window": 20, "hc_mult": 3,
      "hc_sinkhorn_iters": 3, "hc_eps": 1e-3, "index_n_heads": 12, "index_head_dim": 20, "index_topk": 9, "rms_norm_eps": 1e-3, "rope_theta": 1e3,
      "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"] + ["compressed_sparse_attention"] * 2,
      "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 13}, "compress_rope_theta": 2e4,
      "mlp_layer_types": ["hash_moe"] * 2 + ["moe"] * 3, "rope_scaling": {key: value for key, value in YARN.items() if key != "rope_theta"}}
DOTS3 = GROUPS | LATENT | INDEXER | {"num_hidden_layers": 6, "head_dim": 24, "n_shared_experts": 2, "shared_experts_intermediate_size": 20, "sliding_window": 20,
                                     "swa_num_attention_heads": 6, "swa_num_key_value_heads": 6, "swa_q_lora_rank": 20, "swa_kv_lora_rank": 28,
                                     "swa_head_dim": 16, "swa_qk_nope_head_dim": 10, "swa_v_head_dim": 14, "pad_token_id": None}
# A pool of 7 divides neither 150 tokens nor 300, which are more than 3 pools.
GLM53 = GROUPS | INDEXER | {"num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
                            "v_head_dim": 12, "index_topk": 21, "index_kpool": 7, "swiglu_limit": 0.7, "linear_head_dim": 13, "linear_num_heads": 5,
                            "linear_conv_kernel_dim": 3, "hc_mult": 3, "hc_sinkhorn_iters": 3, "hc_eps": 1e-3, "rms_norm_eps": 1e-3, "pad_token_id": None,
                            "layer_types": ["linear_attention", "indexed_attention", "linear_attention", "indexed_attention", "indexed_attention"],
                            "indexer_types": ["shared", "full", "full", "full", "shared"], "mlp_layer_types": ["dense"] + ["sparse"] * 4}
for key in ("num_local_experts", "first_k_dense_replace"):
    del GLM53[key]
INKLING = {"num_hidden_layers": 5, "head_dim": 24, "swa_num_attention_heads": 6, "swa_num_key_value_heads": 3, "swa_head_dim": 20, "sliding_window_size": 20, "d_rel": 5,
           "rel_extent": 50, "log_scaling_n_floor": 24, "log_scaling_alpha": 0.7, "conv_kernel_size": 3, "moe_intermediate_size": 48, "n_routed_experts": 8,
           "num_experts_per_tok": 3, "n_shared_experts": 3, "route_scale": 1.7, "logits_mup_width_multiplier": 3.0, "rms_norm_eps": 1e-3,
           "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding", "hybrid", "hybrid"], "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 3}
INKLING_VISION = {"num_hidden_layers": 3, "patch_size": 2}         # as few layers as are planned without scipy
INKLING_AUDIO = {"n_mel_bins": 4, "mel_vocab_size": 8, "text_hidden_size": 64}
M3 = {"num_experts_per_tok": 3, "head_dim": 20, "num_local_experts": 6, "intermediate_size": 48, "dense_intermediate_size": 160, "shared_intermediate_size": 36,
      "swiglu_limit": 0.7, "swiglu_alpha": 1.3, "index_n_heads": 2, "index_head_dim": 24, "index_block_size": 8, "index_topk_blocks": 3,
      "num_hidden_layers": 4, "layer_types": ["full_attention"] * 2 + ["minimax_m3_sparse"] * 2, "mlp_layer_types": ["dense"] + ["sparse"] * 3,
      "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.6}}
GEMMA3 = {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}

DELTA = {"num_hidden_layers": 4, "head_dim": 40, "num_attention_heads": 4, "linear_num_key_heads": 2,
         "linear_num_value_heads": 6, "linear_key_head_dim": 13, "linear_value_head_dim": 21}
# Few tokens, of which many end a text, and n-grams that hashes reach from both signs.
QWEN4 = DELTA | EXPERTS | {"num_hidden_layers": 5, "vocab_size": 40, "num_experts": 6, "shared_expert_intermediate_size": 40, "hc_count": 3, "hc_lowrank": 12,
                           "ple_layer_ids": [1, 3], "ple_embed_dim": 48, "heads_per_ngram": 4, "ngram_vocab_size_base": 50,
                           "make_ngram_vocab_size_divisible_by": 8, "split_ngram_parts": 5, "eos_token_id": 7, "indexer_n_heads": 12, "indexer_kv_heads": 1,
                           "indexer_head_dim": 44, "indexer_budget": 24, "indexer_compress_ratio": 4, "full_attention_interval": 2,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25, "mrope_section": [2, 2, 1]}}
MAMBA = {"num_hidden_layers": 4, "mamba_n_heads": 6, "mamba_d_head": 20, "mamba_n_groups": 3, "mamba_d_state": 19,
         "mamba_chunk_size": 8, "time_step_limit": [0.25, 1.5]}
GRANITE = {"embedding_multiplier": 3.0, "attention_multiplier": 0.11, "residual_multiplier": 0.3, "logits_scaling": 1.7,
           "shared_intermediate_size": 52, "layer_types": ["mamba", "attention", "mamba", "attention"]}
NEMOTRON = {"hidden_size": 60, "head_dim": 22, "mamba_num_heads": 6, "mamba_head_dim": 17, "ssm_state_size": 19,
            "conv_kernel": 3, "chunk_size": 8, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 44,
            "moe_shared_expert_intermediate_size": 36, "routed_scaling_factor": 1.5}
FALCON = {"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1, "mamba_d_ssm": 120, "mamba_d_conv": 4,
          "embedding_multiplier": 3.0, "lm_head_multiplier": 0.7, "key_multiplier": 0.6, "attention_in_multiplier": 1.2,
          "attention_out_multiplier": 0.8, "ssm_in_multiplier": 1.3, "ssm_out_multiplier": 0.9,
          "ssm_multipliers": [0.5, 1.4, 0.8, 1.1, 0.6], "mlp_multipliers": [1.6, 0.4]}
KIMI = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 12, "num_experts": 8, "num_experts_per_token": 3, "moe_intermediate_size": 48,
        "num_expert_group": 4, "topk_group": 2, "rms_norm_eps": 1e-3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LING = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 12, "head_dim": 13, "num_experts": 16, "num_experts_per_token": 3, "moe_intermediate_size": 48,
        "num_expert_group": 4, "topk_group": 2, "short_conv_kernel_size": 3, "layer_group_size": 3, "first_k_dense_replace": 1,
        "rms_norm_eps": 1e-3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MULTIPLIERS = {"attention_multiplier": 0.3, "embedding_multiplier": 2.5, "logits_scaling": 1.7, "residual_multiplier": 0.4}
LLAMA4 = {"num_hidden_layers": 4, "head_dim": 24, "intermediate_size": 52, "intermediate_size_mlp": 90, "num_local_experts": 6,
          "num_experts_per_tok": 3, "interleave_moe_layer_step": 2, "attention_chunk_size": 17, "floor_scale": 11, "attn_scale": 0.7}
LLAMA4_TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14,
                "vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32}
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "depth": 1, "num_heads": 2,
         "out_hidden_size": 64, "image_size": 28, "patch_size": 14, "deepstack_visual_indexes": [0]}
AUDIO = {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 48, "num_mel_bins": 16, "max_source_positions": 20,
         "output_dim": 64, "downsample_hidden_size": 8}
STEP = {"num_hidden_layers": 4, "head_dim": 24, "n_routed_experts": 6, "num_local_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 48,
        "share_expert_dim": 40, "num_sliding_attention_heads": 6, "sliding_window": 20, "moe_router_scaling_factor": 1.7, "query_pre_attn_scalar": 30,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"], "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "swiglu_limits": [0.0, 0.3, None, 0.05], "swiglu_limits_shared": [0.2, 0.0, 0.1, 0.4],
        "rope_parameters": {"full_attention": LLAMA3 | {"partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}}
MIMO = GROUPS | {"num_hidden_layers": 4, "head_dim": 24, "v_head_dim": 20, "num_key_value_heads": 1, "attention_bias": True, "sliding_window": 20,
                 "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]}
for key in ("num_local_experts", "n_shared_experts", "first_k_dense_replace"):
    del MIMO[key]
GEMMA4 = {"hidden_size": 60, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 4, "head_dim": 20, "global_head_dim": 36,
          "sliding_window": 20, "final_logit_softcapping": 7.0, "rms_norm_eps": 1e-3, "hidden_size_per_layer_input": 0,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]}
GEMMA4_ROPES = {"full_attention": {"rope_type": "proportional", "rope_theta": 1e3, "partial_rotary_factor": 0.7, "factor": 2.0},
                "sliding_attention": {"rope_type": "linear", "rope_theta": 1e2, "factor": 3.0}}
GEMMA4_MOE = {"enable_moe_block": True, "num_experts": 6, "top_k_experts": 3, "moe_intermediate_size": 44}

GEMMA4_SMALL = {"hidden_size_per_layer_input": 28, "vocab_size_per_layer_input": 300}


def beside_tower(**changes: object) -> dict:
    """The configuration of a language model that is a part of another one."""
    return {"text_config": SIZES | {"tie_word_embeddings": True} | changes, "vision_config": TOWER}


def beside_towers(**changes: object) -> dict:
    """The same beside a tower for audio too."""
    return beside_tower(**changes) | {"audio_config": AUDIO}

ERNIE_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]}

DOTS3_VISION = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 2, "moe_intermediate_size": 16, "num_local_experts": 2,
                "num_experts_per_tok": 1, "router_scaling_factor": 1.0, "mlp_layer_types": ["dense"], "adapter_in_dim": 32, "adapter_out_dim": 64}
DOTS3_AUDIO = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 2, "feature_size": 16, "downsample_hidden_size": 8,
               "adapter_input_size": 32, "adapter_out_dim": 64}

GLM53_VISION = {"hidden_size": 32, "intermediate_size": 40, "depth": 1, "num_heads": 2, "image_size": 28, "patch_size": 14, "out_hidden_size": 64,
                "projection_intermediate_size": 48}


def beside_glm(**changes: object) -> dict:
    return {"text_config": SIZES | GLM53 | changes, "vision_config": GLM53_VISION}


# name: the classes of configuration and model, and what differs from SIZES.
MODELS: dict[str, tuple] = {
    "llama": (t.LlamaConfig, t.LlamaForCausalLM, {}),
    "llama, scaled as Llama 3, biases": (t.LlamaConfig, t.LlamaForCausalLM,
                                         {"rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True}),
    "llama, linear, tied, wide heads": (t.LlamaConfig, t.LlamaForCausalLM,
                                        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
                                         "tie_word_embeddings": True, "head_dim": 32}),
    "llama, yarn": (t.LlamaConfig, t.LlamaForCausalLM, {"rope_parameters": YARN}),
    "mistral": (t.MistralConfig, t.MistralForCausalLM, {"sliding_window": 20}),
    "qwen2": (t.Qwen2Config, t.Qwen2ForCausalLM,
              {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}),
    "qwen3": (t.Qwen3Config, t.Qwen3ForCausalLM, {"head_dim": 32}),
    "mixtral": (t.MixtralConfig, t.MixtralForCausalLM,
                {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3_moe": (t.Qwen3MoeConfig, t.Qwen3MoeForCausalLM,
                  EXPERTS | {"num_experts": 6, "norm_topk_prob": True, "mlp_only_layers": [1], "head_dim": 32}),
    "qwen3_moe, weights as they are": (t.Qwen3MoeConfig, t.Qwen3MoeForCausalLM,
                                       EXPERTS | {"num_experts": 6, "norm_topk_prob": False, "head_dim": 16}),
    "gemma2": (t.Gemma2Config, t.Gemma2ForCausalLM,
               {"head_dim": 32, "query_pre_attn_scalar": 48, "sliding_window": 20, "attn_logit_softcapping": 5.0,
                "final_logit_softcapping": 10.0}),
    "gemma3": (t.Gemma3TextConfig, t.Gemma3ForCausalLM,
               {"head_dim": 32, "query_pre_attn_scalar": 48, "sliding_window": 20, "num_hidden_layers": 7,
                "rope_parameters": GEMMA3}),
    "gemma4": (t.Gemma4TextConfig, t.Gemma4ForCausalLM,
               GEMMA4 | GEMMA4_SMALL | GEMMA4_MOE | {"attention_k_eq_v": True, "num_global_key_value_heads": 3,
                                                     "num_kv_shared_layers": 1, "vocab_size_per_layer_input": 310}),
    "gemma4, experts": (t.Gemma4TextConfig, t.Gemma4ForCausalLM,
                        GEMMA4 | GEMMA4_MOE | {"attention_k_eq_v": True, "num_global_key_value_heads": 3}),
    "gemma4, dense, biases": (t.Gemma4TextConfig, t.Gemma4ForCausalLM,
                              GEMMA4 | {"attention_bias": True, "final_logit_softcapping": None, "num_hidden_layers": 7, "layer_types": None,
                                        "num_global_key_value_heads": 3, "rope_parameters": GEMMA4_ROPES}),
    "gemma4, small": (t.Gemma4TextConfig, t.Gemma4ForCausalLM,
                      GEMMA4 | GEMMA4_SMALL | {"use_double_wide_mlp": True, "num_hidden_layers": 6, "num_kv_shared_layers": 3,
                                               "layer_types": [f"{kind}_attention" for kind in ("sliding", "full", "sliding", "sliding", "sliding", "full")]}),
    "phi3": (t.Phi3Config, t.Phi3ForCausalLM, {"pad_token_id": 0, "sliding_window": 30}),
    "phi3, longrope": (t.Phi3Config, t.Phi3ForCausalLM,
                       {"pad_token_id": 0, "original_max_position_embeddings": 64, "rope_parameters": LONGROPE}),
    "gpt_oss": (t.GptOssConfig, t.GptOssForCausalLM,
                {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 20, "head_dim": 32,
                 "rope_parameters": YARN | {"truncate": False}}),
    "glm4_moe": (t.Glm4MoeConfig, t.Glm4MoeForCausalLM,
                 GROUPS | {"use_qk_norm": True, "attention_bias": True, "head_dim": 32}),
    "qwen3_next": (t.Qwen3NextConfig, t.Qwen3NextForCausalLM,
                   DELTA | EXPERTS | {"num_experts": 6, "shared_expert_intermediate_size": 40, "norm_topk_prob": True,
                                      "mlp_only_layers": [1]}),
    "qwen3_next, weights as they are": (t.Qwen3NextConfig, t.Qwen3NextForCausalLM,
                                        DELTA | EXPERTS | {"num_experts": 4, "norm_topk_prob": False,
                                                           "linear_conv_kernel_dim": 7, "linear_num_key_heads": 3,
                                                           "linear_num_value_heads": 3, "attention_bias": True,
                                                           "layer_types": ["full_attention", "linear_attention"] * 2}),
    "qwen3_5": (t.Qwen3_5TextConfig, t.Qwen3_5ForCausalLM, DELTA | {"tie_word_embeddings": True}),
    "qwen3_5_moe": (t.Qwen3_5MoeTextConfig, t.Qwen3_5MoeForCausalLM,
                    DELTA | EXPERTS | {"num_experts": 6, "shared_expert_intermediate_size": 40,
                                       "linear_conv_kernel_dim": 2}),
    "qwen3_5_moe, experts in two tensors": (t.Qwen3_5MoeTextConfig, t.Qwen3_5MoeForCausalLM,
                                            DELTA | EXPERTS | {"num_experts": 4, "num_hidden_layers": 2,
                                                               "layer_types": ["linear_attention", "full_attention"]}),
    "qwen4_exp": (t.Qwen4ExpTextConfig, t.Qwen4ExpForCausalLM, QWEN4 | {"vocab_size": 300, "rms_norm_eps": 1e-3}),
    "qwen4_exp, other keys": (t.Qwen4ExpConfig, t.Qwen4ExpForConditionalGeneration,
                              beside_tower(**QWEN4 | {"hc_count": 2, "ple_layer_ids": [2], "ple_embed_dim": None, "ngram_size": 5, "ple_conv_kernel_size": 3,
                                                      "eos_token_id": [3, 7], "output_gate_type": "sigmoid", "norm_topk_prob": False, "indexer_budget": 35,
                                                      "indexer_compress_ratio": 7, "attention_bias": True, "tie_word_embeddings": False,
                                                      "layer_types": ["indexed_attention", "linear_attention"] * 2 + ["full_attention"]})),
    "bamba": (t.BambaConfig, t.BambaForCausalLM,
              MAMBA | {"mamba_d_conv": 3, "hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1,
                       "attn_layer_indices": [1], "attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True}),
    "bamba, one group, no biases": (t.BambaConfig, t.BambaForCausalLM,
                                    MAMBA | {"mamba_n_groups": 1, "mamba_d_head": "auto", "mamba_n_heads": 8,
                                             "mamba_conv_bias": False, "attn_layer_indices": [0, 2],
                                             "time_step_limit": [0.0, float("inf")], "tie_word_embeddings": True}),
    "granitemoehybrid": (t.GraniteMoeHybridConfig, t.GraniteMoeHybridForCausalLM,
                         MAMBA | GRANITE | {"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1,
                                            "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 44,
                                            "attention_bias": True, "mamba_proj_bias": True}),
    "granitemoehybrid, dense, with positions": (t.GraniteMoeHybridConfig, t.GraniteMoeHybridForCausalLM,
                                                MAMBA | GRANITE | {"hidden_size": 60, "num_attention_heads": 3,
                                                                   "num_key_value_heads": 3, "num_local_experts": 0,
                                                                   "position_embedding_type": "rope"}),
    "nemotron_h": (t.NemotronHConfig, t.NemotronHForCausalLM,
                   NEMOTRON | {"layers_block_type": ["mamba", "moe", "attention", "mlp", "mamba", "moe"], "n_groups": 3,
                               "moe_latent_size": 28, "use_bias": True, "mlp_bias": True, "time_step_min": 0.4,
                               "n_group": 2, "topk_group": 1, "norm_topk_prob": False}),
    "nemotron_h, no latent values": (t.NemotronHConfig, t.NemotronHForCausalLM,
                                     NEMOTRON | {"layers_block_type": ["moe", "mamba", "attention"], "n_groups": 1,
                                                 "use_conv_bias": False}),
    "falcon_h1": (t.FalconH1Config, t.FalconH1ForCausalLM,
                  MAMBA | FALCON | {"mamba_rms_norm": True, "attention_bias": True, "mlp_bias": True,
                                    "projectors_bias": True, "mamba_proj_bias": True}),
    "falcon_h1, norm after the gate": (t.FalconH1Config, t.FalconH1ForCausalLM,
                                       MAMBA | FALCON | {"mamba_rms_norm": True, "mamba_norm_before_gate": False,
                                                         "num_hidden_layers": 2}),
    "falcon_h1, no norm": (t.FalconH1Config, t.FalconH1ForCausalLM,
                           MAMBA | FALCON | {"mamba_d_ssm": None, "mamba_d_head": "auto", "num_hidden_layers": 2,
                                             "mamba_conv_bias": False}),
    "lfm2": (t.Lfm2Config, t.Lfm2ForCausalLM,
             {"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention", "conv"],
              "conv_bias": True, "norm_eps": 1e-4,
              "block_auto_adjust_ff_dim": False}),
    "lfm2, layers by a list": (t.Lfm2Config, t.Lfm2ForCausalLM,
                               {"conv_L_cache": 8, "full_attn_idxs": [2], "head_dim": 24, "block_multiple_of": 16}),
    "lfm2_moe": (t.Lfm2MoeConfig, t.Lfm2MoeForCausalLM,
                 EXPERTS | {"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1, "conv_bias": True,
                            "layer_types": ["conv", "full_attention", "conv"], "num_experts": 6,
                            "num_dense_layers": 1, "routed_scaling_factor": 1.5}),
    "jamba": (t.JambaConfig, t.JambaForCausalLM,
              {"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 4, "intermediate_size": 44,
               "attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 19, "mamba_d_conv": 3, "mamba_expand": 3,
               "mamba_proj_bias": True, "mamba_dt_rank": 7, "num_experts": 5, "num_experts_per_tok": 2}),
    "jamba, dense": (t.JambaConfig, t.JambaForCausalLM,
                     {"attn_layer_period": 2, "attn_layer_offset": 0, "mamba_conv_bias": False, "num_experts": 1,
                      "tie_word_embeddings": True}),
    "seed_oss": (t.SeedOssConfig, t.SeedOssForCausalLM, {"head_dim": 24, "attention_bias": True, "mlp_bias": True}),
    "qwen2_moe": (t.Qwen2MoeConfig, t.Qwen2MoeForCausalLM,
                  EXPERTS | {"num_experts": 6, "shared_expert_intermediate_size": 40, "mlp_only_layers": [1]}),
    "glm4_moe_lite": (t.Glm4MoeLiteConfig, t.Glm4MoeLiteForCausalLM,
                      {k: v for k, v in (GROUPS | LATENT).items() if k != "first_k_dense_replace"} | {"q_lora_rank": 24}),
    "dots1": (t.Dots1Config, t.Dots1ForCausalLM,
              GROUPS | {"head_dim": 24, "sliding_window": 20, "max_window_layers": 1}),
    "granite": (t.GraniteConfig, t.GraniteForCausalLM, MULTIPLIERS | {"attention_bias": True}),
    "granitemoe": (t.GraniteMoeConfig, t.GraniteMoeForCausalLM, MULTIPLIERS | {"num_local_experts": 6, "num_experts_per_tok": 3}),
    "olmo2": (t.Olmo2Config, t.Olmo2ForCausalLM, {"attention_bias": True}),
    "olmo3": (t.Olmo3Config, t.Olmo3ForCausalLM,
              {"sliding_window": 20, "num_hidden_layers": 5, "rope_parameters":
               {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    "olmoe": (t.OlmoeConfig, t.OlmoeForCausalLM, {"num_experts": 6, "num_experts_per_tok": 3, "intermediate_size": 48}),
    "minimax_m3_vl": (t.MiniMaxM3VLConfig, t.MiniMaxM3SparseForConditionalGeneration, beside_tower(**M3, tie_word_embeddings=False) | {"projector_hidden_size": 32}),
    "minimax_m2": (t.MiniMaxM2Config, t.MiniMaxM2ForCausalLM,
                   {"num_local_experts": 6, "num_experts_per_tok": 3, "head_dim": 24, "intermediate_size": 48, "rotary_dim": 12}),
    "smollm3": (t.SmolLM3Config, t.SmolLM3ForCausalLM, {"no_rope_layers": [1, 0, 1], "mlp_bias": True, "pad_token_id": 0}),
    "glm4": (t.Glm4Config, t.Glm4ForCausalLM, {"head_dim": 24, "pad_token_id": 0}),
    "ernie4_5": (t.Ernie4_5Config, t.Ernie4_5ForCausalLM, {"head_dim": 24}),
    "exaone4": (t.Exaone4Config, t.Exaone4ForCausalLM,
                {"head_dim": 24, "sliding_window": 20, "sliding_window_pattern": 2, "rope_parameters": LLAMA3}),
    "exaone4, no windows": (t.Exaone4Config, t.Exaone4ForCausalLM,
                            {"sliding_window": None, "layer_types": ["full_attention"] * 3, "tie_word_embeddings": True}),
    "cohere2": (t.Cohere2Config, t.Cohere2ForCausalLM,
                {"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1, "sliding_window": 20, "attention_bias": True,
                 "logit_scale": 0.3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "hunyuan_v1_dense": (t.HunYuanDenseV1Config, t.HunYuanDenseV1ForCausalLM,
                         {"head_dim": 24, "attention_bias": True, "tie_word_embeddings": True, "rope_parameters": NTK_ALPHA}),
    "hunyuan_v1_moe": (t.HunYuanMoEV1Config, t.HunYuanMoEV1ForCausalLM,
                       {"head_dim": 24, "num_experts": 6, "moe_topk": [3, 3, 3], "intermediate_size": 48,
                        "rope_parameters": NTK_ALPHA | {"mscale": 1.0, "mscale_all_dim": 1.0}}),
    "ernie4_5_moe": (t.Ernie4_5_MoeConfig, t.Ernie4_5_MoeForCausalLM,
                     {"moe_num_experts": 6, "moe_k": 3, "moe_intermediate_size": 48, "moe_num_shared_experts": 2,
                      "moe_layer_start_index": 1, "use_bias": True, "tie_word_embeddings": False}),
    "ernie4_5_moe, no biases": (t.Ernie4_5_MoeConfig, t.Ernie4_5_MoeForCausalLM,
                                {"moe_num_experts": 5, "moe_k": 2, "moe_intermediate_size": 36, "moe_num_shared_experts": 0,
                                 "moe_layer_interval": 2, "tie_word_embeddings": True, "num_attention_heads": 2}),
    "ernie4_5_vl_moe": (t.Ernie4_5_VLMoeConfig, t.Ernie4_5_VLMoeForConditionalGeneration,
                        beside_tower(moe_num_experts=6, moe_k=3, moe_intermediate_size=[48, 20], moe_num_shared_experts=2, use_bias=True,
                                     rope_parameters=ERNIE_ROPE)),
    "ernie4_5_vl_moe, no shared experts, dense in the middle": (t.Ernie4_5_VLMoeConfig, t.Ernie4_5_VLMoeForConditionalGeneration,
                        beside_tower(moe_num_experts=5, moe_k=2, moe_intermediate_size=[20, 20], moe_num_shared_experts=0,
                                     mlp_layer_types=["sparse", "dense", "sparse"], tie_word_embeddings=False,
                                     rope_parameters=ERNIE_ROPE) | {"tie_word_embeddings": False}),
    "hy_v3": (t.HYV3Config, t.HYV3ForCausalLM,
              EXPERTS | {"head_dim": 24, "num_experts": 6, "num_shared_experts": 2, "attention_bias": True, "mlp_bias": True, "rms_norm_eps": 1e-3}),
    "arcee": (t.ArceeConfig, t.ArceeForCausalLM, {"attention_bias": True, "mlp_bias": True, "rope_parameters": YARN}),
    "afmoe": (t.AfmoeConfig, t.AfmoeForCausalLM,
              EXPERTS | {"num_hidden_layers": 5, "head_dim": 24, "num_experts": 6, "num_shared_experts": 2, "num_dense_layers": 2, "route_scale": 1.7, "sliding_window": 20,
                         "global_attn_every_n_layers": 2, "mup_enabled": True, "attention_bias": True, "initializer_range": 0.1}),
    "laguna": (t.LagunaConfig, t.LagunaForCausalLM,
               EXPERTS | {"head_dim": 24, "num_experts": 6, "shared_expert_intermediate_size": 40, "attention_bias": True, "sliding_window": 20,
                          "num_attention_heads_per_layer": [4, 6, 2], "moe_routed_scaling_factor": 1.7, "moe_router_logit_softcapping": 1.3,
                          "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                          "rope_parameters": {"full_attention": YARN | {"partial_rotary_factor": 0.5},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 0.75}}}),
    "laguna, gates of values": (t.LagunaConfig, t.LagunaForCausalLM,
                                EXPERTS | {"head_dim": 24, "num_experts": 6, "shared_expert_intermediate_size": 40, "gating": "per-element",
                                           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "num_attention_heads_per_layer": [2, 6, 8],
                                           "mlp_layer_types": ["sparse", "dense", "sparse"]}),
    "mimo_v2_flash": (t.MiMoV2FlashConfig, t.MiMoV2FlashForCausalLM, MIMO),
    "mimo_v2_flash, as released": (t.MiMoV2FlashConfig, t.MiMoV2FlashForCausalLM, MIMO | {"attention_bias": False, "num_hidden_layers": 7, "layer_types": None}),
    "step3p5": (t.Step3p7Config, t.Step3p7ForConditionalGeneration, beside_tower(**STEP)),
    "step3p5, as released": (t.Step3p7Config, t.Step3p7ForConditionalGeneration,
                             beside_tower(**STEP | {"query_pre_attn_scalar": None, "attention_bias": True, "mlp_bias": True})),
    "flint": (t.FlintConfig, t.FlintForCausalLM,
              EXPERTS | {"num_hidden_layers": 7, "head_dim": 24, "num_experts": 6, "shared_expert_intermediate_size": 40, "attention_bias": True, "sliding_window": 20,
                         "mlp_only_layers": [0]}),
    "granite_swa": (t.GraniteSWAConfig, t.GraniteSWAForCausalLM,
                    MULTIPLIERS | {"num_hidden_layers": 5, "attention_bias": True, "mlp_bias": True, "sliding_window": 20, "layer_rope_theta": [1e4, 1e3, 1e3, 0, 1e5],
                                   "rope_parameters": YARN}),
    "granitemoe_swa": (t.GraniteMoeSWAConfig, t.GraniteMoeSWAForCausalLM,
                       MULTIPLIERS | {"num_local_experts": 6, "num_experts_per_tok": 3, "shared_intermediate_size": 52, "sliding_window": 20,
                                      "layer_rope_theta": [0, 1e3, 1e2]}),
    "granitemoe_swa, no shared expert": (t.GraniteMoeSWAConfig, t.GraniteMoeSWAForCausalLM,
                                         MULTIPLIERS | {"num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True, "sliding_window": 20}),
    "lfm3": (t.Lfm3Config, t.Lfm3ForCausalLM,
             {"num_hidden_layers": 5, "head_dim": 24, "pad_token_id": 0, "conv_bias": True, "norm_eps": 1e-4, "sliding_window": 20, "attention_bias": True, "conv_L_cache": 4,
              "tie_word_embeddings": False}),
    "muse_glimmer": (t.MuseGlimmerConfig, t.MuseGlimmerForConditionalGeneration,
                     beside_tower(num_hidden_layers=5, head_dim=24, sliding_window=20, attention_bias=True, post_norm_eps=1e-3, final_logit_softcapping=4.0,
                                  output_multiplier=0.4, tie_word_embeddings=False)),
    "ministral3": (t.Ministral3Config, t.Ministral3ForCausalLM,
                   {"head_dim": 24, "sliding_window": 90, "rope_parameters": GROWN_QUERIES}),
    "mistral4": (t.Mistral4Config, t.Mistral4ForCausalLM,
                 GROUPS | LATENT | {"q_lora_rank": 24, "attention_bias": True, "n_shared_experts": 2, "rope_parameters": GROWN_QUERIES}),
    "mistral4, whole queries, pairs apart": (t.Mistral4Config, t.Mistral4ForCausalLM,
                                             GROUPS | LATENT | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_interleave": False,
                                                                "norm_topk_prob": False, "rope_parameters": GROWN_QUERIES}),
    "qwen3_vl, beside a tower": (t.Qwen3VLConfig, t.Qwen3VLForConditionalGeneration, beside_tower(head_dim=24)),
    "qwen3_vl_moe, beside a tower": (t.Qwen3VLMoeConfig, t.Qwen3VLMoeForConditionalGeneration,
                                     beside_tower(**EXPERTS, head_dim=24, num_experts=6, mlp_only_layers=[1])),
    "qwen2_5_omni": (t.Qwen2_5OmniThinkerConfig, t.Qwen2_5OmniThinkerForConditionalGeneration,
                     beside_towers(tie_word_embeddings=False, use_sliding_window=True, sliding_window=16, max_window_layers=1,
                                   rope_parameters={"rope_type": "default", "rope_theta": 1e5, "mrope_section": [2, 3, 3]})),
    "qwen3_omni_moe": (t.Qwen3OmniMoeThinkerConfig, t.Qwen3OmniMoeThinkerForConditionalGeneration,
                       beside_towers(**EXPERTS, num_experts=6, mlp_only_layers=[1], attention_bias=True,
                                     rope_parameters={"rope_type": "default", "rope_theta": 1e5, "mrope_section": [2, 3, 3]})),
    "glm4v_moe": (t.Glm4vMoeConfig, t.Glm4vMoeForConditionalGeneration,
                  beside_tower(**GROUPS, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]})),
    "glm4v": (t.Glm4vConfig, t.Glm4vForConditionalGeneration,
              beside_tower(rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "mrope_section": [2, 2, 2]})),
    "solar_open": (t.SolarOpenConfig, t.SolarOpenForCausalLM, GROUPS | {"head_dim": 24, "attention_bias": True}),
    "sarvam_mla": (t.SarvamMLAConfig, t.DeepseekV3ForCausalLM, GROUPS | LATENT | {"q_lora_rank": 24, "rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9}}),
    "sarvam_mla, as released": (t.SarvamMLAConfig, t.DeepseekV3ForCausalLM,
                                GROUPS | LATENT | {"n_group": 1, "topk_group": 1, "q_lora_rank": None, "rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}}),
    "sarvam_moe": (t.SarvamMoEConfig, t.Glm4MoeForCausalLM, GROUPS | {"head_dim": 24, "attention_bias": True}),
    "youtu": (t.YoutuConfig, t.YoutuForCausalLM, LATENT | {"q_lora_rank": 24, "attention_bias": True, "rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9}}),
    "granitemoeshared": (t.GraniteMoeSharedConfig, t.GraniteMoeSharedForCausalLM,
                         MULTIPLIERS | {"num_local_experts": 6, "num_experts_per_tok": 3, "shared_intermediate_size": 52, "attention_bias": True}),
    "exaone_moe": (t.ExaoneMoeConfig, t.ExaoneMoeForCausalLM,
                   EXPERTS | {"head_dim": 24, "num_experts": 8, "num_shared_experts": 2, "n_group": 4, "topk_group": 2, "num_hidden_layers": 5,
                              "sliding_window": 20, "sliding_window_pattern": 2}),
    "phi4_multimodal": (t.Phi4MultimodalConfig, t.Phi4MultimodalForCausalLM,
                        {"pad_token_id": 0, "original_max_position_embeddings": 64, "rope_parameters": LONGROPE, "sliding_window": 30,
                         "vision_config": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "crop_size": 28,
                                           "patch_size": 14},
                         "audio_config": {"hidden_size": 32, "intermediate_size": 48, "num_blocks": 1, "num_attention_heads": 2}}),
    "deepseek_v3, beside a tower": (t.Kimi_K25Config, t.Kimi_K25ForConditionalGeneration,
                                    beside_tower(**GROUPS | LATENT, model_type="kimi_k2", q_lora_rank=24)),
    "gemma3, beside a tower": (t.Gemma3Config, t.Gemma3ForConditionalGeneration,
                               beside_tower(head_dim=32, sliding_window=20, query_pre_attn_scalar=48)),
    "lfm2, beside a tower": (t.Lfm2VlConfig, t.Lfm2VlForConditionalGeneration,
                             beside_tower(model_type="lfm2", layer_types=["conv", "full_attention", "conv"], head_dim=24, block_auto_adjust_ff_dim=False)),
    "gemma4, beside a tower": (t.Gemma4Config, t.Gemma4ForConditionalGeneration,
                               {"text_config": SIZES | GEMMA4 | GEMMA4_MOE | {"use_bidirectional_attention": "vision"},
                                "vision_config": TOWER | {"num_key_value_heads": 2, "head_dim": 16, "position_embedding_size": 40},
                                "audio_config": None}),
    "mistral, beside a tower": (t.Mistral3Config, t.Mistral3ForConditionalGeneration,
                                beside_tower(model_type="mistral", head_dim=24, sliding_window=20)),
    "llama4": (t.Llama4TextConfig, t.Llama4ForCausalLM,
               LLAMA4 | {"no_rope_layers": [1, 0, 1, 0], "attention_bias": True, "rope_parameters": LLAMA3, "rms_norm_eps": 1e-3}),
    "llama4, beside a tower": (t.Llama4Config, t.Llama4ForConditionalGeneration,
                               {"text_config": SIZES | LLAMA4, "vision_config": LLAMA4_TOWER}),
    "llama4, no norms, other chunks": (t.Llama4TextConfig, t.Llama4ForCausalLM,
                                       LLAMA4 | {"use_qk_norm": False, "attn_temperature_tuning": False, "no_rope_layer_interval": 3,
                                                 "num_experts_per_tok": 1, "layer_types": ["full_attention", "chunked_attention"] * 2}),
    "kimi_linear": (t.KimiLinearConfig, t.KimiLinearForCausalLM,
                    KIMI | {"linear_attn_config": {"head_dim": 13, "num_heads": 5, "short_conv_kernel_size": 3,
                                                   "full_attn_layers": [2], "kda_layers": [1, 3, 4]}}),
    "kimi_linear, other keys": (t.KimiLinearConfig, t.KimiLinearForCausalLM,
                                KIMI | {"num_hidden_layers": 5, "linear_head_dim": 20, "linear_num_heads": 3, "q_lora_rank": 24,
                                        "attention_bias": True, "num_shared_experts": 2, "moe_renormalize": False,
                                        "mlp_layer_types": ["sparse", "dense", "sparse", "dense", "sparse"]}),
    "bailing_hybrid": (t.BailingHybridConfig, t.BailingHybridForCausalLM, LING),
    "bailing_hybrid, as released": (t.BailingHybridConfig, t.BailingHybridForCausalLM, LING | {"head_dim": 8}),
    "bailing_hybrid, other keys": (t.BailingHybridConfig, t.BailingHybridForCausalLM,
                                   LING | {"num_hidden_layers": 5, "head_dim": 20, "layer_group_size": 2, "kda_safe_gate": False,
                                           "attention_bias": True, "num_shared_experts": 2, "moe_renormalize": False,
                                           "routed_scaling_factor": 1.5, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
    "bailing_hybrid, shallow decays": (t.BailingHybridConfig, t.BailingHybridForCausalLM,
                                       LING | {"kda_lower_bound": -0.75, "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"],
                                               "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]}),
    "deepseek_v2": (t.DeepseekV2Config, t.DeepseekV2ForCausalLM,
                    GROUPS | LATENT | {"q_lora_rank": None, "n_shared_experts": 2, "topk_method": "greedy", "norm_topk_prob": False,
                                       "attention_bias": True, "mlp_bias": True}),
    "deepseek_v2, groups": (t.DeepseekV2Config, t.DeepseekV2ForCausalLM,
                            GROUPS | LATENT | {"q_lora_rank": 24, "topk_method": "group_limited_greedy", "norm_topk_prob": False,
                                               "rms_norm_eps": 1e-3, "rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9}}),
    "deepseek_v4": (t.DeepseekV4Config, t.DeepseekV4ForCausalLM, V4),
    "deepseek_v4, as released": (t.DeepseekV4Config, t.DeepseekV4ForCausalLM, V4 | {"compress_rates": None}),
    "deepseek_v4, windows": (t.DeepseekV4Config, t.DeepseekV4ForCausalLM, V4 | {"layer_types": ["sliding_attention"] * 5}),
    "deepseek_v32": (t.DeepseekV32Config, t.DeepseekV32ForCausalLM,
                     GROUPS | LATENT | INDEXER | {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9}, "attention_bias": True}),
    "deepseek_v32, many weights": (t.DeepseekV32Config, t.DeepseekV32ForCausalLM,
                                   GROUPS | LATENT | INDEXER | {"index_n_heads": 150, "index_head_dim": 8, "rms_norm_eps": 1e-3}),
    "glm_moe_dsa": (t.GlmMoeDsaConfig, t.GlmMoeDsaForCausalLM,
                    GROUPS | LATENT | INDEXER | {"indexer_types": ["full", "shared", "full"], "norm_topk_prob": False}),
    "glm5_next": (t.Glm5NextConfig, t.Glm5NextForConditionalGeneration, beside_glm()),
    "glm5_next, unbounded": (t.Glm5NextConfig, t.Glm5NextForConditionalGeneration,
                             beside_glm(linear_lower_bound=None, index_topk=1, index_kpool=1, attention_bias=True, norm_topk_prob=False, n_shared_experts=2,
                                        hc_mult=2, layer_types=["full_attention"] * 3 + ["linear_attention", "full_attention"], indexer_types=["full"] * 5,
                                        mlp_layer_types=["sparse", "dense", "sparse", "sparse", "dense"])),
    "glm5_next, as released": (t.Glm5NextConfig, t.Glm5NextForConditionalGeneration,
                               beside_glm(num_hidden_layers=8, layer_types=None, mlp_layer_types=None, indexer_types=["full"] * 8, linear_lower_bound=-0.75,
                                          index_topk=64, index_kpool=16)),
    "dots3_note": (t.Dots3NoteTextConfig, t.Dots3NoteForCausalLM, DOTS3 | {"rms_norm_eps": 1e-3, "attention_bias": True}),
    "dots3_note, as released": (t.Dots3NoteTextConfig, t.Dots3NoteForCausalLM, DOTS3 | {"sliding_window": 25}),
    "dots3_note, all keys": (t.Dots3NoteConfig, t.Dots3NoteForConditionalGeneration,
                             {"text_config": SIZES | DOTS3 | {"use_dsa": False, "sliding_window": 30, "num_attention_heads": 5, "num_key_value_heads": 5,
                                                              "layer_types": ["sliding_attention", "full_attention"] * 3, "norm_topk_prob": False},
                              "vision_config": DOTS3_VISION, "audio_config": DOTS3_AUDIO}),
    "inkling": (t.InklingConfig, t.InklingForConditionalGeneration, {"text_config": SIZES | INKLING, "vision_config": INKLING_VISION, "audio_config": INKLING_AUDIO}),
    "inkling, as released": (t.InklingConfig, t.InklingForConditionalGeneration,
                             {"text_config": SIZES | INKLING | {"layer_types": ["hybrid_sliding", "hybrid"] * 2 + ["hybrid_sliding"], "mlp_layer_types": ["dense"] + ["sparse"] * 4,
                                                                "conv_kernel_size": 4, "n_shared_experts": 1, "unpadded_vocab_size": 290, "log_scaling_n_floor": None},
                              "vision_config": INKLING_VISION, "audio_config": INKLING_AUDIO}),
    "deepseek_v3": (t.DeepseekV3Config, t.DeepseekV3ForCausalLM,
                    GROUPS | LATENT | {"q_lora_rank": 24, "rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}}),
    "deepseek_v3, pairs apart": (t.DeepseekV3Config, t.DeepseekV3ForCausalLM,
                                 GROUPS | LATENT | {"q_lora_rank": 24, "rope_interleave": False, "rms_norm_eps": 1e-3}),
    "deepseek_v3, whole queries": (t.DeepseekV3Config, t.DeepseekV3ForCausalLM,
                                   GROUPS | LATENT | {"q_lora_rank": None, "n_group": 1, "topk_group": 1}),
}


def load(name: str, folder: pathlib.Path) -> torch.nn.Module:
    """The model in fp32, by its own class of configuration: several families may have one class of models."""
    config_class, model_class = MODELS[name][:2]
    return ready(model_class.from_pretrained(folder, config=config_class.from_pretrained(folder), dtype=torch.float32))


def ready(model: torch.nn.Module) -> torch.nn.Module:
    """For comparisons.  Delta rules go token by token: transformers' form in chunks is 3e-5 off that in fp32, more than is allowed here."""
    module = sys.modules[type(model).__module__]
    if hasattr(module, "torch_recurrent_gated_delta_rule"):
        module.torch_chunk_gated_delta_rule = module.torch_recurrent_gated_delta_rule
    if hasattr(module, "recurrent_kimi_delta_attention"):
        module.chunk_kimi_delta_attention = module.recurrent_kimi_delta_attention
    if isinstance(model, t.Llama4ForConditionalGeneration): # transformers 5.24 reads the output of images of a text, too
        model.forward = model.language_model.forward
    return model.eval()


def save(name: str, folder: pathlib.Path) -> torch.nn.Module:
    """Writes the model in bf16 and returns it in fp32: the same values."""
    config_class, model_class, changes = MODELS[name]
    torch.manual_seed(len(name))
    model = model_class(config_class(**changes if "text_config" in changes else SIZES | changes))
    with torch.no_grad():
        for key, parameter in [*model.named_parameters(), *model.named_buffers()]:
            if "norm" in key:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            if key == "lm_head.weight" and getattr(model.config.get_text_config(), "unpadded_vocab_size", None):
                parameter[model.config.get_text_config().unpadded_vocab_size:] = 0
            if key.endswith(("layer_scalar", "router.scale", "per_expert_scale", "global_scale")):
                parameter.mul_(1 + torch.randn_like(parameter) * 0.3)
            if key.endswith(("bias", "sinks")):
                parameter.copy_(torch.randn_like(parameter) * 0.2)
            if key.endswith("feed_forward.gate.weight"):    # scores so small that what is added to their sum tells
                parameter.mul_(12)
            if key.endswith("router.gate.weight"):          # Trinity's begin as zeros
                parameter.copy_(torch.randn_like(parameter) * 0.2)
            if key.endswith((".D", "A_log")):
                parameter.add_(torch.randn_like(parameter) * 0.5)
            if key.endswith(("_hc.base", "_hc.scale", "hc_base", "hc_scale")):
                parameter.copy_(0.6 * torch.randn_like(parameter) + key.endswith("scale"))
            if key.endswith(("index_kpool_compress_ape", "index_kpool_compress_gate", "ple.conv1d.weight")):
                parameter.copy_(torch.randn_like(parameter) * 0.4)
            if key.endswith("layer_multipliers"):           # products of both signs: transformers' own are never below 0
                parameter.mul_(1001)
            if key.endswith("tid2eid"):                     # different experts for each token
                parameter.copy_(torch.rand(len(parameter), model.config.n_routed_experts).argsort(-1)[:, :parameter.shape[1]])
            if key.endswith("forget_gate.A_log"):           # states that outlast a chunk
                parameter.sub_(3)
    model.to(torch.bfloat16).save_pretrained(folder)
    if name.endswith("in two tensors"):         # as in memory, and in the releases of Qwen3.5
        save_file(dict(model.state_dict()), folder / "model.safetensors", {"format": "pt"})
    released.rewrite(name, model_class, folder)
    return load(name, folder)
