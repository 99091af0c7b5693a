/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* LFM2 with experts from some layer on: sigmoid scores, and a bias for their choice. */
const struct arch arch_lfm2_moe = {
	.name = "lfm2_moe",
	.architectures = { "Lfm2MoeForCausalLM" },
	.linear = {
		LFM2_MATRICES,
		[LINEAR_ROUTER] = "feed_forward.gate",
	},
	.vector = {
		LFM2_VECTORS,
		[VECTOR_ROUTER_BIAS] = "feed_forward.expert_bias",
	},
	.expert = { EXPERTS_W("feed_forward.experts") },
	.fused_gate_up = "feed_forward.experts.gate_up_proj",
	.fused_down = "feed_forward.experts.down_proj",
	.norm = "embedding_norm",
	.tied = true,
	.routing.sigmoid = true,
	.routing.sum_eps = 1e-6f,
	.facts.keys = {
		{ "conv_L_cache", "3" },
		{ "conv_bias", "false" },
		{ "norm_eps", "1e-05" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "4" },
		{ "rope_theta", "1000000.0" },
		{ "routed_scaling_factor", "1.0" },
	},
	.facts.ignored = {
		{ "hidden_act", NULL },
		{ "num_dense_layers", NULL },
		{ "tie_embedding", "true" },
		{ "use_expert_bias", "true" },
	},
};
