/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Granite 3 with experts. */
const struct arch arch_granitemoe = {
	.name = "granitemoe",
	.architectures = { "GraniteMoeForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "block_sparse_moe.router.layer" },
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.fused_gate_up = "block_sparse_moe.input_linear.weight",
	.fused_down = "block_sparse_moe.output_linear.weight",
	.routing.choose_first = true,
	.facts.shared = granite_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "num_experts_per_tok", "2" },
	},
};
