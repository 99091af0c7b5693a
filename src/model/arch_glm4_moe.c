/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* GLM-4.5: sigmoid scores of experts, a shared expert; half of a head is rotated. */
const struct arch arch_glm4_moe = {
	.name = "glm4_moe",
	.architectures = { "Glm4MoeForCausalLM" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.sigmoid = true,
	.rotary_factor = 0.5,
};
