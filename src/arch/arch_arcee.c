/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Arcee: Llama whose mlp has no gate. */
const struct arch arch_arcee = {
	.name = "arcee",
	.architectures = { "ArceeForCausalLM" },
	.linear = { [LINEAR_GATE] = "", [LINEAR_GATE_UP] = "" },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "hidden_act", "\"relu2\"" },
		{ "mlp_bias", "false" },
		{ "rms_norm_eps", "1e-05" },
	},
};

/* Trinity: norms before and after attention and mlp, and of q and k; a gate of each value of
 * attention, which knows positions only in layers with a window; experts with sigmoid scores, and a
 * shared one. */
const struct arch arch_afmoe = {
	.name = "afmoe",
	.architectures = { "AfmoeForCausalLM" },
	.text_types = { "afmoe" },
	.linear = {
		[LINEAR_QKV] = "",
		[LINEAR_VALUE_GATE] = "self_attn.gate_proj",
		[LINEAR_ROUTER] = "mlp.router.gate",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_mlp_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_mlp_layernorm.weight",
		[VECTOR_ROUTER_BIAS] = "mlp.expert_bias",
		QK_NORMS,
	},
	.positions.rotating = ROTATING_WINDOWS,
	.routing.norm_top_k = true,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "global_attn_every_n_layers", "4" },
		{ "head_dim", "128" },
		{ "mup_enabled", "false" },
		{ "num_experts_per_tok", "6" },
		{ "rms_norm_eps", "1e-05" },
		{ "route_scale", "1.0" },
		{ "sliding_window", "1024" },
	},
	.facts.ignored = {
		{ "load_balance_coeff", NULL },
		{ "n_group", "1" },
		{ "num_dense_layers", NULL },
		{ "num_expert_groups", "1" },
		{ "num_limited_groups", "1" },
		{ "route_norm", "true" },
		{ "score_func", "\"sigmoid\"" },
		{ "topk_group", "1" },
	},
};
