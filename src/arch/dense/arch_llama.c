/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Llama 1 to 3, and models of the same structure (SmolLM2, TinyLlama, Yi). */
const struct arch arch_llama = {
	.name = "llama",
	.architectures = { "LlamaForCausalLM" },
	.text_types = { "llama" },
	.facts.keys = { { "attention_bias", "false" }, { "mlp_bias", "false" } },
};
