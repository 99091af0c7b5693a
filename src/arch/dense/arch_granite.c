/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Granite 3: Llama with factors of embeddings, scores, steps and logits. */
const struct arch arch_granite = {
	.name = "granite",
	.architectures = { "GraniteForCausalLM" },
	.text_types = { "granite" },
	.facts.shared = granite_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "mlp_bias", "false" },
	},
};
