/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

#define LFM2_MATRICES                                                         \
	[LINEAR_O] = "self_attn.out_proj", [LINEAR_GATE] = "feed_forward.w1", \
	[LINEAR_UP] = "feed_forward.w3", [LINEAR_DOWN] = "feed_forward.w2"

#define LFM2_VECTORS                                                                             \
	[VECTOR_NORM_ATTENTION] = "operator_norm.weight", [VECTOR_NORM_MLP] = "ffn_norm.weight", \
	[VECTOR_NORM_Q] = "self_attn.q_layernorm.weight",                                        \
	[VECTOR_NORM_K] = "self_attn.k_layernorm.weight", [VECTOR_CONV] = "conv.conv.weight",    \
	[VECTOR_CONV_BIAS] = "conv.conv.bias"

/* LFM2: gated short convolutions in most layers.  The keys that are ignored are of its releases;
 * the tensors say the sizes among them. */
const struct arch arch_lfm2 = {
	.name = "lfm2",
	.architectures = { "Lfm2ForCausalLM" },
	.text_types = { "lfm2" },
	.holders = "lfm2_vl",
	.linear = {
		LFM2_MATRICES,
	},
	.vector = {
		LFM2_VECTORS,
	},
	.norm = "embedding_norm",
	.tied = true,
	.facts.keys = {
		{ "conv_L_cache", "3" },
		{ "conv_bias", "false" },
		{ "full_attn_idxs", NULL },
		{ "norm_eps", "1e-05" },
		{ "rope_theta", "1000000.0" },
	},
	.facts.ignored = {
		{ "block_auto_adjust_ff_dim", NULL },
		{ "block_dim", NULL },
		{ "block_ff_dim", NULL },
		{ "block_ffn_dim_multiplier", NULL },
		{ "block_mlp_init_scale", NULL },
		{ "block_multiple_of", NULL },
		{ "block_norm_eps", NULL },
		{ "block_out_init_scale", NULL },
		{ "block_use_swiglu", "true" },
		{ "block_use_xavier_init", NULL },
		{ "conv_dim", NULL },
		{ "conv_dim_out", NULL },
		{ "conv_use_xavier_init", NULL },
		{ "hidden_act", NULL },
		{ "num_heads", NULL },
		{ "theta", NULL },
		{ "tie_embedding", "true" },
		{ "use_pos_enc", "true" },
	},
};

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
	.stacks[EXPERT_ROLE_GATE_UP] = "feed_forward.experts.gate_up_proj",
	.stacks[EXPERT_ROLE_DOWN] = "feed_forward.experts.down_proj",
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

static const char lfm3_ropes[] =
	"{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, "
	"\"full_attention\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5, "
	"\"rope_theta\": 1000000.0}}";

/* LFM3: LFM2 with windows, norms of what a layer's steps return, and a gate of each head. */
const struct arch arch_lfm3 = {
	.name = "lfm3",
	.architectures = { "Lfm3ForCausalLM" },
	.text_types = { "lfm3" },
	.holders = "lfm3_vl",
	.linear = {
		[LINEAR_HEAD_GATE] = "self_attn.gate_proj",
		[LINEAR_GATE] = "feed_forward.w1",
		[LINEAR_UP] = "feed_forward.w3",
		[LINEAR_DOWN] = "feed_forward.w2",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION] = "operator_norm.weight",
		[VECTOR_NORM_ATTENTION_OUT] = "post_operator_norm.weight",
		[VECTOR_NORM_MLP] = "ffn_norm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_ffn_norm.weight",
		[VECTOR_CONV] = "conv.conv.weight",
		[VECTOR_CONV_BIAS] = "conv.conv.bias",
		QK_NORMS,
	},
	.norm = "embedding_norm",
	.tied = true,
	.positions.layer_pattern = "CC|FCSC",
	.positions.layer_ropes = true,
	.positions.whole_rope = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "conv_L_cache", "7" },
		{ "conv_bias", "false" },
		{ "head_dim", "128" },
		{ "norm_eps", "1e-05" },
		{ "rope_parameters", lfm3_ropes },
		{ "sliding_window", "256" },
	},
	.facts.ignored = {
		{ "hidden_act", NULL },
		{ "use_attention_gate", "true" },
		{ "use_sandwich_norm", "true" },
	},
};
