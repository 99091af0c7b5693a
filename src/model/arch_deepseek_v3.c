/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* DeepSeek-V3 and R1: latent attention; experts in groups, sigmoid scores, a shared expert. */
const struct arch arch_deepseek_v3 = {
	.name = "deepseek_v3",
	.architectures = { "DeepseekV3ForCausalLM" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.sigmoid = true,
};
