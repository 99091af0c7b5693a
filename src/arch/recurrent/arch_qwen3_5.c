/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Qwen 3.5, dense: gated DeltaNet in three of four layers, and gated attention. */
const struct arch arch_qwen3_5 = {
	.name = "qwen3_5",
	.architectures = { "Qwen3_5ForCausalLM" },
	.text_types = { "qwen3_5_text" },
	.vector = { QK_NORMS },
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "partial_rotary_factor", "0.25" },
	},
	.facts.shared_ignored = delta_ignored,
};
