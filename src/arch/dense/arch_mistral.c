/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Mistral: Llama with a sliding window. */
const struct arch arch_mistral = {
	.name = "mistral",
	.architectures = { "MistralForCausalLM" },
	.text_types = { "mistral" },
	.facts.keys = { { "sliding_window", "4096" } },
};
