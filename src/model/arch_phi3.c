/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Phi-3 and Phi-4: q, k and v in one matrix, gate and up in another. */
const struct arch arch_phi3 = {
	.name = "phi3",
	.architectures = { "Phi3ForCausalLM" },
};
