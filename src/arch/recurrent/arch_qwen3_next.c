/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Qwen3-Next: gated DeltaNet in three of four layers, gated attention, experts and a shared one. */
const struct arch arch_qwen3_next = {
	.name = "qwen3_next",
	.architectures = { "Qwen3NextForCausalLM" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.vector = { QK_NORMS },
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "10" },
		{ "partial_rotary_factor", "0.25" },
	},
	.facts.shared_ignored = delta_ignored,
};
