# SPDX-License-Identifier: Apache-2.0
"""Small random models of many families, as transformers makes and writes them."""
import pathlib

import torch
import transformers as t
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SIZES = {"hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64,
         "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 256, "initializer_range": 0.1,
         "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MOE = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
       "n_shared_experts": 1, "num_shared_experts": 1, "shared_expert_intermediate_size": 128, "n_group": 2, "topk_group": 1,
       "first_k_dense_replace": 1, "norm_topk_prob": True}
SMALL = MOE | {"intermediate_size": 128}
MLA = {"num_key_value_heads": 4, "q_lora_rank": 128, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 128,
       "v_head_dim": 64, "head_dim": 128}
DELTA = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
         "layer_types": ["linear_attention", "full_attention"]}
INKLING2 = SMALL | {"unpadded_vocab_size": 312, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 64}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 64}

# model_type: what differs from SIZES; widths that are no multiples of 128 under names of their own.
MODELS: dict[str, dict] = {
    "llama": {}, "mistral": {}, "ministral3": {}, "smollm3": {}, "seed_oss": {}, "arcee": {}, "apertus": {},
    "qwen2": {}, "qwen3": {}, "olmo2": {}, "olmo3": {}, "phi3": {}, "granite": {}, "ernie4_5": {}, "hunyuan_v1_dense": {},
    "gemma2": {}, "gemma3_text": {}, "gemma4_text": {},
    "youtu": MLA, "olmo_hybrid": {}, "falcon_h1": MAMBA | {"mamba_d_ssm": 512},
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "qwen2_moe": MOE, "qwen3_moe": MOE, "qwen3_next": MOE | DELTA,
    "qwen3_5_text": DELTA, "qwen3_5_moe_text": MOE | DELTA,
    "deepseek_v2": MOE | MLA, "deepseek_v3": MOE | MLA, "deepseek_v32": MOE | MLA, "glm_moe_dsa": MOE | MLA,
    "deepseek_v4": MOE, "glm4_moe": MOE, "glm4_moe_lite": MOE | MLA, "longcat_flash": MOE | MLA,
    "mixtral": SMALL, "minimax_m2": SMALL, "olmoe": SMALL, "gpt_oss": SMALL, "granitemoe": SMALL,
    "granitemoehybrid": SMALL | MAMBA | {"shared_intermediate_size": 256, "layer_types": ["mamba", "attention"]},
    "nemotron_h": MOE | {"layers_block_type": ["mamba", "attention", "moe", "mlp"], "num_hidden_layers": 4, "mamba_num_heads": 8,
                         "mamba_head_dim": 64, "ssm_state_size": 64, "n_groups": 2, "moe_shared_expert_intermediate_size": 128},
    "jamba": MOE | {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
                    "use_mamba_kernels": False},
    "lfm2_moe": MOE | {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "ernie4_5_moe": MOE | {"moe_num_experts": 4, "moe_k": 2}, "hunyuan_v1_moe": MOE | {"moe_topk": 2}, "hy_v3": MOE,
    "llama4_text": SMALL | {"intermediate_size_mlp": 256, "interleave_moe_layer_step": 1},
    "afmoe": MOE | {"num_dense_layers": 1}, "dots1": MOE, "cohere2_moe": MOE, "laguna": MOE, "exaone_moe": MOE,
    "mimo_v2_flash": MOE, "phimoe": SMALL, "solar_open": MOE,
    "lara_mini": MOE | DELTA, "hy_v4": MOE | MLA, "inkling2_text": INKLING2,
    "inkling2_loop_text": INKLING2 | {"num_hidden_layers": 4, "initializer_range": 0.03, "loop_layer_index_start": 1, "loop_layer_index_end": 3, "n_layers_per_attn_res_block": 1},
    "llama, odd widths": {"intermediate_size": 352, "num_key_value_heads": 1, "head_dim": 96},
    "qwen3_moe, odd widths": MOE | {"moe_intermediate_size": 96},
}


def save(name: str, folder: pathlib.Path) -> None:
    """Writes the model in BF16."""
    cls = CONFIG_MAPPING[name.split(",")[0]]
    torch.manual_seed(len(name))
    model = t.AutoModelForCausalLM.from_config(cls(**SIZES | MODELS[name]), dtype=torch.bfloat16)
    model.save_pretrained(folder)
