/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Gemma 3, its language model: q and k are normalized; five of six layers have a window and their
 * own angles. */
const struct arch arch_gemma3 = {
	.name = "gemma3",
	.architectures = { "Gemma3ForCausalLM" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		[VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		[VECTOR_NORM_K] = "self_attn.k_norm.weight",
	},
	.norm_plus_one = true,
	.scaled_embedding = true,
	.tied = true,
	.query_scalar = true,
	.window_pattern = 6,
};
