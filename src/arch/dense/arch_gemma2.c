/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Gemma 2: norms before and after attention and mlp, capped scores and logits, every second
 * layer with a window. */
const struct arch arch_gemma2 = {
	.name = "gemma2",
	.architectures = { "Gemma2ForCausalLM" },
	.text_types = { "gemma2" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
	},
	.norms = NORMS_PLUS_ONE,
	.scaled_embedding = true,
	.tied = true,
	.window_pattern = 2,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attn_logit_softcapping", "50.0" },
		{ "final_logit_softcapping", "30.0" },
		{ "head_dim", "256" },
		{ "hidden_activation", "\"gelu_pytorch_tanh\"" },
		{ "query_pre_attn_scalar", "256" },
		{ "sliding_window", "4096" },
	},
	.facts.ignored = {
		{ "hidden_act", NULL },
		{ "sliding_window_size", NULL },
	},
};
