/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* GPT-OSS with weights in BF16: experts in one tensor, gate and up interleaved; each head has a
 * sink. */
const struct arch arch_gpt_oss = {
	.name = "gpt_oss",
	.architectures = { "GptOssForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "mlp.router" },
	.vector = { [VECTOR_SINKS] = "self_attn.sinks" },
	.clamped = true,
	.choose_first = true,
};
