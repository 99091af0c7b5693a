/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

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
