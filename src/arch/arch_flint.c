/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Flint: norms of q and k; sinks; only layers with a window know positions; experts with sigmoid
 * scores, and a shared one. */
const struct arch arch_flint = {
	.name = "flint",
	.architectures = { "FlintForCausalLM" },
	.text_types = { "flint" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.vector = {
		QK_NORMS,
		[VECTOR_SINKS] = "self_attn.softmax_offset",
	},
	.positions.layer_pattern = "FF|SSSF|F",
	.positions.rotating = ROTATING_WINDOWS,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "6" },
		{ "sliding_window", "513" },
	},
};
