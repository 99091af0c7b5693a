/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mamba.h"

/* Granite 4: Mamba-2 in most layers, attention that need not know positions, and an mlp for every
 * token, with experts or alone. */
const struct arch arch_granitemoehybrid = {
	.name = "granitemoehybrid",
	.architectures = { "GraniteMoeHybridForCausalLM" },
	.linear = {
		[LINEAR_GATE_UP] = "shared_mlp.input_linear",
		[LINEAR_DOWN] = "shared_mlp.output_linear",
		[LINEAR_ROUTER] = "block_sparse_moe.router.layer",
	},
	.vector = { MAMBA_VECTORS("mamba") },
	.expert = {
		[EXPERT_ROLE_GATE] = "block_sparse_moe.experts.%zu.w1",
		[EXPERT_ROLE_UP] = "block_sparse_moe.experts.%zu.w3",
		[EXPERT_ROLE_DOWN] = "block_sparse_moe.experts.%zu.w2",
	},
	.fused_gate_up = "block_sparse_moe.input_linear.weight",
	.fused_down = "block_sparse_moe.output_linear.weight",
	.multipliers = MULTIPLIERS_GRANITE,
	.rope_by_type = true,
	.mamba = &mamba_keys_common,
	.choose_first = true,
};
