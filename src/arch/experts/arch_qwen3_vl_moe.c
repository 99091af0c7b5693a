/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* The language model of Qwen3-VL with experts: their weights always sum to 1. */
const struct arch arch_qwen3_vl_moe = {
	.name = "qwen3_vl_moe",
	.text_types = { "qwen3_vl_moe_text" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.norm_top_k = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "num_experts_per_tok", "4" },
		{ "rope_theta", "500000.0" },
	},
};
