/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Gemma 2: norms before and after attention and mlp, capped scores and logits, every second
 * layer with a window. */
const struct arch arch_gemma2 = {
	.name = "gemma2",
	.architectures = { "Gemma2ForCausalLM" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
	},
	.norm_plus_one = true,
	.scaled_embedding = true,
	.tied = true,
	.query_scalar = true,
	.window_pattern = 2,
};
