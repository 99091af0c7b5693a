/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Muse-Glimmer, its language model: normed embeddings; norms before and after attention and mlp, of
 * another eps after them; norms of q and k without weights, and a factor of q; a gate of each value
 * of attention; some layers do not know positions; capped logits. */
const struct arch arch_muse_glimmer = {
	.name = "muse_glimmer",
	.architectures = { "MuseGlimmerForConditionalGeneration" },
	.text_types = { "muse_glimmer_text" },
	.linear = { [LINEAR_VALUE_GATE] = "self_attn.gate_proj" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		[VECTOR_NORM_Q] = "",
		[VECTOR_NORM_K] = "",
	},
	.norms = NORMS_PLUS_ONE_IN_LAYERS,
	.head_norms = HEADS_PLAIN_FIRST,
	.embedding_norm = "",
	.positions.layer_pattern = "<SSSF",
	.positions.rope_switches = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "final_logit_softcapping", "20.0" },
		{ "head_dim", "128" },
		{ "hidden_activation", "\"silu\"" },
		{ "layer_rope_theta", NULL },
		{ "output_multiplier", "0.19611613513818404" },
		{ "post_norm_eps", "1e-08" },
		{ "qk_scale_factor", "3.87" },
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", "2048" },
	},
	.facts.ignored = { { "hidden_act", NULL } },
};
