/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Qwen 3.5 with experts and a shared one: gated DeltaNet in three of four layers, and gated
 * attention. */
const struct arch arch_qwen3_5_moe = {
	.name = "qwen3_5_moe",
	.architectures = { "Qwen3_5MoeForCausalLM" },
	.text_types = { "qwen3_5_moe_text" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.vector = { QK_NORMS },
	.routing.norm_top_k = true,
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "num_experts_per_tok", "8" },
		{ "partial_rotary_factor", "0.25" },
	},
	.facts.shared_ignored = delta_ignored,
	.facts.ignored = { { "norm_topk_prob", "true" } },
};
