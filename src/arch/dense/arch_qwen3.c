/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Qwen 3: q and k are normalized head by head. */
const struct arch arch_qwen3 = {
	.name = "qwen3",
	.architectures = { "Qwen3ForCausalLM" },
	.text_types = { "qwen3" },
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "max_window_layers", "28" },
		{ "sliding_window", "4096" },
		{ "use_sliding_window", "false" },
	},
	.facts.ignored = { { "use_qk_norm", "true" } },
};
