/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* GLM-4 (0414): norms before and after attention and mlp, half of a head rotated by adjacent
 * pairs. */
const struct arch arch_glm4 = {
	.name = "glm4",
	.architectures = { "Glm4ForCausalLM" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_self_attn_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_mlp_layernorm.weight",
	},
	.adjacent_pairs = true,
	.facts.keys = {
		{ "attention_bias", "true" },
		{ "head_dim", "128" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1.5625e-07" },
	},
};
