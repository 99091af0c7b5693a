/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Granite 3 with experts. */
const struct arch arch_granitemoe = {
	.name = "granitemoe",
	.architectures = { "GraniteMoeForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "block_sparse_moe.router.layer" },
	.expert = {
		[EXPERT_ROLE_GATE] = "block_sparse_moe.experts.%zu.w1",
		[EXPERT_ROLE_UP] = "block_sparse_moe.experts.%zu.w3",
		[EXPERT_ROLE_DOWN] = "block_sparse_moe.experts.%zu.w2",
	},
	.fused_gate_up = "block_sparse_moe.input_linear.weight",
	.fused_down = "block_sparse_moe.output_linear.weight",
	.choose_first = true,
	.facts.shared = granite_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "num_experts_per_tok", "2" },
	},
};
