/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Gemma 3, its language model: q and k are normalized; five of six layers have a window and their
 * own angles. */
const struct arch arch_gemma3 = {
	.name = "gemma3",
	.architectures = { "Gemma3ForCausalLM" },
	.text_types = { "gemma3_text" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		QK_NORMS,
	},
	.norms = NORMS_PLUS_ONE,
	.scaled_embedding = true,
	.tied = true,
	.window_pattern = 6,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "hidden_activation", "\"gelu_pytorch_tanh\"" },
		{ "query_pre_attn_scalar", "256" },
		{ "rope_local_base_freq", "10000.0" },
		{ "rope_theta", "1000000.0" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
	.facts.ignored = {
		{ "_sliding_window_pattern", NULL },
		{ "hidden_act", NULL },
	},
};
