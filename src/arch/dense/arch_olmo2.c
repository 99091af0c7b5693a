/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* OLMo 2: norms after attention and mlp, and of the heads of a token together. */
const struct arch arch_olmo2 = {
	.name = "olmo2",
	.architectures = { "Olmo2ForCausalLM" },
	.vector = {
		[VECTOR_NORM_ATTENTION] = "",
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		[VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		[VECTOR_NORM_K] = "self_attn.k_norm.weight",
	},
	.norm_heads_together = true,
	.facts.keys = { { "attention_bias", "false" }, { "rms_norm_eps", "1e-05" } },
};
