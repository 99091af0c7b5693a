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
