/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

static const char laguna_ropes[] =
	"{\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0, "
	"\"partial_rotary_factor\": 0.5}, "
	"\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0, "
	"\"partial_rotary_factor\": 1.0}}";

/* Laguna: layers have numbers of heads of their own; norms of q and k; gates of heads or of values,
 * by softplus; experts with sigmoid scores of capped logits, and a shared one. */
const struct arch arch_laguna = {
	.name = "laguna",
	.architectures = { "LagunaForCausalLM" },
	.text_types = { "laguna" },
	.linear = {
		[LINEAR_HEAD_GATE] = "self_attn.g_proj",
		[LINEAR_VALUE_GATE] = "self_attn.g_proj",
		SHARED_EXPERT("mlp.shared_expert"),
	},
	.vector = {
		QK_NORMS,
		[VECTOR_ROUTER_BIAS] = "mlp.experts.e_score_correction_bias",
	},
	.softplus_gates = true,
	.positions.layer_ropes = true,
	.positions.window_pattern = 1,
	.routing.norm_top_k = true,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "gating", "true" },
		{ "head_dim", "128" },
		{ "moe_routed_scaling_factor", "1.0" },
		{ "moe_router_logit_softcapping", "0.0" },
		{ "num_attention_heads_per_layer", NULL },
		{ "num_experts_per_tok", "8" },
		{ "rope_parameters", laguna_ropes },
		{ "sliding_window", "512" },
	},
};
