/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* EXAONE 4: norms after attention and mlp, and of q and k; in a model with windows, only layers
 * with a window know positions. */
const struct arch arch_exaone4 = {
	.name = "exaone4",
	.architectures = { "Exaone4ForCausalLM" },
	.text_types = { "exaone4", "exaone4_5_text" },
	.vector = {
		[VECTOR_NORM_ATTENTION] = "",
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		[VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		[VECTOR_NORM_K] = "self_attn.k_norm.weight",
	},
	.rotating = ROTATING_WINDOWS_IF_ANY,
	.window_pattern = 4,
	.facts.keys = {
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
};
