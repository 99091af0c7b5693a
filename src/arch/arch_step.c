/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Step-3.5 and 3.7: norms of q and k; a gate of each head; more heads of queries in layers with a
 * window; ropes by the types of layers; experts in three tensors with sigmoid scores, and a shared
 * one; limits of gated values in some layers.  Keys are the release's, or as transformers writes
 * them. */
const struct arch arch_step3p5 = {
	.name = "step3p5",
	.architectures = { "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration" },
	.text_types = { "step3p5" },
	.holders = "step3p7",
	.linear = {
		[LINEAR_HEAD_GATE] = "self_attn.g_proj",
		[LINEAR_ROUTER] = "moe.gate",
		SHARED_EXPERT("share_expert"),
	},
	.vector = {
		QK_NORMS,
		[VECTOR_ROUTER_BIAS] = "moe.router_bias",
	},
	.expert = { EXPERTS("moe.experts") },
	.stacks = {
		[EXPERT_ROLE_GATE] = "moe.gate_proj.weight",
		[EXPERT_ROLE_UP] = "moe.up_proj.weight",
		[EXPERT_ROLE_DOWN] = "moe.down_proj.weight",
	},
	.norms = NORMS_PLUS_ONE,
	.positions.layer_pattern = "|F",
	.positions.layer_ropes = true,
	.routing.norm_top_k = true,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_other_setting", NULL },
		{ "head_dim", "128" },
		{ "mlp_bias", "false" },
		{ "moe_router_scaling_factor", "1.0" },
		{ "moe_top_k", NULL },
		{ "num_experts_per_tok", "8" },
		{ "num_sliding_attention_heads", NULL },
		{ "partial_rotary_factors", "null" },
		{ "per_layer_config", NULL },
		{ "query_pre_attn_scalar", NULL },
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", NULL },
		{ "swiglu_limits", NULL },
		{ "swiglu_limits_shared", NULL },
		{ "yarn_only_types", "[\"full_attention\"]" },
	},
	.facts.ignored = {
		{ "att_impl_type", "\"GQA\"" },
		{ "gating", "true" },
		{ "hidden_act", NULL }, /* transformers takes silu whatever it is */
		{ "max_seq_len", NULL },
		{ "moe_every_n_layer", NULL },
		{ "moe_layer_offset", NULL },
		{ "moe_layers_enum", NULL },
		{ "moe_num_experts", NULL },
		{ "moe_router_activation", "\"sigmoid\"" },
		{ "mtp_layer_types", NULL },
		{ "mtp_mlp_layer_types", NULL },
		{ "need_fp32_gate", "true" },
		{ "norm_expert_weight", "true" },
		{ "num_attention_groups", NULL },
		{ "share_expert_dim", NULL },
		{ "share_expert_dims", NULL },
		{ "use_head_wise_attn_gate", "true" },
		{ "use_moe", "true" },
		{ "use_moe_router_bias", "true" },
		{ "use_qk_norm", "true" },
		{ "zero_centered", "true" },
	},
};
