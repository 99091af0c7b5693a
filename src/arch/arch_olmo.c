/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* OLMo 2: norms after attention and mlp, and of the heads of a token together. */
const struct arch arch_olmo2 = {
	.name = "olmo2",
	.architectures = { "Olmo2ForCausalLM" },
	.vector = {
		NORMS_AFTER,
		QK_NORMS,
	},
	.head_norms = HEADS_TOGETHER,
	.facts.keys = { { "attention_bias", "false" }, { "rms_norm_eps", "1e-05" } },
};

/* OLMo 3: OLMo 2 with a window in three of four layers, whose angles are never scaled. */
const struct arch arch_olmo3 = {
	.name = "olmo3",
	.architectures = { "Olmo3ForCausalLM" },
	.vector = {
		NORMS_AFTER,
		QK_NORMS,
	},
	.head_norms = HEADS_TOGETHER,
	.positions.plain_window_rope = true,
	.positions.window_pattern = 4,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "500000.0" },
		{ "sliding_window", "4096" },
	},
};

/* OLMoE: norms of the heads of a token together, and experts. */
const struct arch arch_olmoe = {
	.name = "olmoe",
	.architectures = { "OlmoeForCausalLM" },
	.vector = { QK_NORMS },
	.head_norms = HEADS_TOGETHER,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "8" },
		{ "rms_norm_eps", "1e-05" },
	},
};
