/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* The language model of Qwen3-VL with experts: their weights always sum to 1. */
const struct arch arch_qwen3_vl_moe = {
	.name = "qwen3_vl_moe",
	.text_types = { "qwen3_vl_moe_text" },
	.vector = { QK_NORMS },
	.routing.norm_top_k = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "num_experts_per_tok", "4" },
		{ "rope_theta", "500000.0" },
	},
	.facts.ignored = { { "norm_topk_prob", "true" } },
};
