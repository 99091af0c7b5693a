/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Qwen 3.5, dense: gated DeltaNet in three of four layers, and gated attention. */
const struct arch arch_qwen3_5 = {
	.name = "qwen3_5",
	.architectures = { "Qwen3_5ForCausalLM" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.norm_plus_one = true,
	.rotary_factor = 0.25,
	.attention_interval = 4,
	.gated_attention = true,
};
