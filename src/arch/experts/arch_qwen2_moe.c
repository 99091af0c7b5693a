/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Qwen 1.5 and 2 with experts, and a shared expert whose weight has a router of its own. */
const struct arch arch_qwen2_moe = {
	.name = "qwen2_moe",
	.architectures = { "Qwen2MoeForCausalLM" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.facts.keys = {
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "4" },
	},
	/* a window is refused: transformers alternates layers below max_window_layers */
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "qkv_bias", NULL },
		{ "sliding_window", NULL },
	},
};
