/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Qwen 3 with experts, in all layers or in some. */
const struct arch arch_qwen3_moe = {
	.name = "qwen3_moe",
	.architectures = { "Qwen3MoeForCausalLM" },
	.text_types = { "qwen3_moe" },
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "8" },
		{ "sliding_window", "4096" },
		{ "use_sliding_window", "false" },
	},
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "use_qk_norm", "true" },
	},
};
