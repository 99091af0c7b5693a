/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Kimi Linear: Kimi Delta Attention, and latent attention without positions in one of four layers;
 * the experts of DeepSeek-V3.  Names and keys are the releases'. */
const struct arch arch_kimi_linear = {
	.name = "kimi_linear",
	.architectures = { "KimiLinearForCausalLM" },
	.linear = {
		KDA_MATRICES("self_attn"),
		[LINEAR_DELTA_F_A] = "self_attn.f_a_proj",
		[LINEAR_DELTA_F_B] = "self_attn.f_b_proj",
		[LINEAR_DELTA_G_A] = "self_attn.g_a_proj",
		[LINEAR_DELTA_G_B] = "self_attn.g_b_proj",
		[LINEAR_DELTA_OUT] = "self_attn.o_proj",
		[LINEAR_ROUTER] = "block_sparse_moe.gate",
		SHARED_EXPERT("block_sparse_moe.shared_experts"),
	},
	.vector = {
		KDA_VECTORS("self_attn"),
		[VECTOR_ROUTER_BIAS] = "block_sparse_moe.gate.e_score_correction_bias",
	},
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.routing.sigmoid = true,
	.positions.rotating = ROTATING_NONE,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "kv_lora_rank", "512" },
		{ "linear_attn_config", NULL },
		{ "linear_conv_kernel_dim", "4" },
		{ "linear_head_dim", "128" },
		{ "linear_num_heads", "32" },
		{ "moe_renormalize", "true" },
		{ "num_expert_group", "1" },
		{ "num_experts_per_token", "8" },
		{ "q_lora_rank", NULL },
		{ "qk_nope_head_dim", "128" },
		{ "qk_rope_head_dim", "64" },
		{ "rms_norm_eps", "1e-05" },
		{ "routed_scaling_factor", "2.446" },
		{ "topk_group", "1" },
		{ "v_head_dim", "128" },
	},
	.facts.ignored = {
		{ "head_dim", NULL },
		{ "mla_use_nope", "true" },
		{ "moe_router_activation_func", "\"sigmoid\"" },
		{ "qk_head_dim", NULL },
		{ "use_grouped_topk", "true" },
	},
};
