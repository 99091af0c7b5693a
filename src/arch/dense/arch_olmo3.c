/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* OLMo 3: OLMo 2 with a window in three of four layers, whose angles are never scaled. */
const struct arch arch_olmo3 = {
	.name = "olmo3",
	.architectures = { "Olmo3ForCausalLM" },
	.vector = {
		[VECTOR_NORM_ATTENTION] = "",
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		[VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		[VECTOR_NORM_K] = "self_attn.k_norm.weight",
	},
	.norm_heads_together = true,
	.plain_window_rope = true,
	.window_pattern = 4,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "500000.0" },
		{ "sliding_window", "4096" },
	},
};
