/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* OLMoE: norms of the heads of a token together, and experts. */
const struct arch arch_olmoe = {
	.name = "olmoe",
	.architectures = { "OlmoeForCausalLM" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.norm_heads_together = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "8" },
		{ "rms_norm_eps", "1e-05" },
	},
};
