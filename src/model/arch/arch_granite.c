/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Granite 3: Llama with factors of embeddings, scores, steps and logits. */
const struct arch arch_granite = {
	.name = "granite",
	.architectures = { "GraniteForCausalLM" },
	.text_types = { "granite" },
	.multipliers = MULTIPLIERS_GRANITE,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_multiplier", "1.0" },
		{ "embedding_multiplier", "1.0" },
		{ "logits_scaling", "1.0" },
		{ "mlp_bias", "false" },
		{ "residual_multiplier", "1.0" },
	},
};
