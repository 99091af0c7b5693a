/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* ERNIE 4.5, dense: Llama with rotated pairs that are adjacent. */
const struct arch arch_ernie4_5 = {
	.name = "ernie4_5",
	.architectures = { "Ernie4_5ForCausalLM" },
	.positions.adjacent_pairs = true,
	.tied = true,
	.facts.keys = { { "head_dim", "128" },
			{ "rms_norm_eps", "1e-05" },
			{ "rope_theta", "500000.0" } },
	.facts.ignored = { { "use_rmsnorm", "true" } },
};

static const struct fact_row moe_facts[] = {
	{ "moe_k", "6" },
	{ "rms_norm_eps", "1e-05" },
	{ "rope_theta", "500000.0" },
	{ "use_bias", "false" },
	{ NULL, NULL },
};

static const struct ignored_row moe_ignored[] = {
	{ "moe_capacity", NULL },	   { "moe_gate", "\"topk\"" },
	{ "moe_layer_end_index", NULL },   { "moe_layer_interval", NULL },
	{ "moe_layer_start_index", NULL }, { "moe_norm_min", "1e-12" },
	{ "moe_num_experts", NULL },	   { "moe_num_shared_experts", NULL },
	{ "moe_use_aux_free", NULL },	   { "multi_token_pred_lambda", NULL },
	{ "use_rmsnorm", "true" },	   { NULL, NULL },
};

/* ERNIE 4.5 with experts: softmax scores, with a bias for their choice, and shared experts. */
const struct arch arch_ernie4_5_moe = {
	.name = "ernie4_5_moe",
	.architectures = { "Ernie4_5_MoeForCausalLM" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.moe_statics.e_score_correction_bias" },
	.positions.adjacent_pairs = true,
	.tied = true,
	.routing.norm_top_k = true,
	.facts.shared = moe_facts,
	.facts.shared_ignored = moe_ignored,
};

/* The language model of ERNIE 4.5 VL: experts of their own for images. */
const struct arch arch_ernie4_5_vl_moe = {
	.name = "ernie4_5_vl_moe",
	.architectures = { "Ernie4_5_VLMoeForConditionalGeneration" },
	.text_types = { "ernie4_5_vl_moe_text" },
	.holders = "ernie4_5_moe_vl",
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.moe_statics.e_score_correction_bias" },
	.positions.adjacent_pairs = true,
	.experts.have_images = true,
	.tied = true,
	.routing.norm_top_k = true,
	.facts.shared = moe_facts,
	.facts.shared_ignored = moe_ignored,
};
