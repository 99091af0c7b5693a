/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

static const struct mamba_keys keys = { MAMBA_KEYS };

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
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.fused_gate_up = "block_sparse_moe.input_linear.weight",
	.fused_down = "block_sparse_moe.output_linear.weight",
	.mamba = &keys,
	.routing.choose_first = true,
	.facts.shared = mamba_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_multiplier", "1.0" },
		{ "embedding_multiplier", "1.0" },
		{ "logits_scaling", "1.0" },
		{ "num_experts_per_tok", "2" },
		{ "position_embedding_type", "\"nope\"" },
		{ "residual_multiplier", "1.0" },
	},
	.facts.ignored = {
		{ "init_method", NULL },
		{ "mamba_chunk_size", NULL },
		{ "normalization_function", "\"rmsnorm\"" },
		{ "shared_intermediate_size", NULL },
	},
};
