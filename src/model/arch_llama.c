/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Llama 1 to 3 and all that was built like it (SmolLM2, TinyLlama, Yi); biases show in the
 * tensors. */
const struct arch arch_llama = {
	.name = "llama",
	.architectures = { "LlamaForCausalLM" },
};
