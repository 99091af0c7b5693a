/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Jamba: Mamba-1 in most layers, attention that does not know positions, experts in some layers. */
const struct arch arch_jamba = {
	.name = "jamba",
	.architectures = { "JambaForCausalLM" },
	.linear = {
		MLP("feed_forward"),
		[LINEAR_ROUTER] = "feed_forward.router",
	},
	.vector = {
		[VECTOR_NORM_MLP] = "pre_ff_layernorm.weight",
		[VECTOR_CONV] = "mamba.conv1d.weight",
		[VECTOR_CONV_BIAS] = "mamba.conv1d.bias",
		[VECTOR_A_LOG] = "mamba.A_log",
		[VECTOR_SKIP] = "mamba.D",
		[VECTOR_NORM_STEP] = "mamba.dt_layernorm.weight",
		[VECTOR_NORM_B] = "mamba.b_layernorm.weight",
		[VECTOR_NORM_C] = "mamba.c_layernorm.weight",
	},
	.expert = { EXPERTS("feed_forward.experts") },
	.stacks[EXPERT_ROLE_GATE_UP] = "feed_forward.experts.gate_up_proj",
	.stacks[EXPERT_ROLE_DOWN] = "feed_forward.experts.down_proj",
	.norm = "final_layernorm",
	.positions.rotating = ROTATING_NONE,
	.facts.keys = {
		{ "attn_layer_offset", "4" },
		{ "attn_layer_period", "8" },
		{ "mamba_conv_bias", "true" },
		{ "mamba_d_conv", "4" },
		{ "mamba_d_state", "16" },
		{ "mamba_dt_rank", "\"auto\"" },
		{ "mamba_expand", "2" },
		{ "mamba_proj_bias", "false" },
		{ "num_experts_per_tok", "2" },
	},
	.facts.ignored = {
		{ "calc_logits_for_entire_prompt", NULL },
		{ "expert_layer_offset", NULL },
		{ "expert_layer_period", NULL },
		{ "mamba_inner_layernorms", "true" },
		{ "n_ctx", NULL },
		{ "num_logits_to_keep", NULL },
		{ "use_associative_scan", NULL },
		{ "use_mamba_kernels", NULL },
		{ "use_mambapy", NULL },
	},
};
