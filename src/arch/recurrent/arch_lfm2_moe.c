/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* LFM2 with experts from some layer on: sigmoid scores, and a bias for their choice. */
const struct arch arch_lfm2_moe = {
	.name = "lfm2_moe",
	.architectures = { "Lfm2MoeForCausalLM" },
	.linear = {
		[LINEAR_O] = "self_attn.out_proj",
		[LINEAR_GATE] = "feed_forward.w1",
		[LINEAR_UP] = "feed_forward.w3",
		[LINEAR_DOWN] = "feed_forward.w2",
		[LINEAR_ROUTER] = "feed_forward.gate",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION] = "operator_norm.weight",
		[VECTOR_NORM_MLP] = "ffn_norm.weight",
		[VECTOR_NORM_Q] = "self_attn.q_layernorm.weight",
		[VECTOR_NORM_K] = "self_attn.k_layernorm.weight",
		[VECTOR_CONV] = "conv.conv.weight",
		[VECTOR_CONV_BIAS] = "conv.conv.bias",
		[VECTOR_ROUTER_BIAS] = "feed_forward.expert_bias",
	},
	.expert = {
		[EXPERT_ROLE_GATE] = "feed_forward.experts.%zu.w1",
		[EXPERT_ROLE_UP] = "feed_forward.experts.%zu.w3",
		[EXPERT_ROLE_DOWN] = "feed_forward.experts.%zu.w2",
	},
	.fused_gate_up = "feed_forward.experts.gate_up_proj",
	.fused_down = "feed_forward.experts.down_proj",
	.norm = "embedding_norm",
	.tied = true,
	.sigmoid = true,
	.top_k_eps = 1e-6f,
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
