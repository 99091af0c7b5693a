/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Phi-3 and Phi-4: q, k and v in one matrix, gate and up in another. */
const struct arch arch_phi3 = {
	.name = "phi3",
	.architectures = { "Phi3ForCausalLM" },
	.facts.keys = {
		{ "original_max_position_embeddings", NULL },
		{ "partial_rotary_factor", "1.0" },
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", NULL },
	},
	.facts.ignored = {
		{ "full_attn_mod", "1" },
		{ "interpolate_factor", "1" },
	},
};

/* Phi-4-multimodal: Phi-3 beside encoders of images and audio. */
const struct arch arch_phi4_multimodal = {
	.name = "phi4_multimodal",
	.architectures = { "Phi4MultimodalForCausalLM" },
	.facts.keys = {
		{ "original_max_position_embeddings", "4096" },
		{ "partial_rotary_factor", "1.0" },
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", NULL },
	},
	.facts.ignored = {
		{ "audio_config", NULL },
		{ "full_attn_mod", "1" },
		{ "interpolate_factor", "1" },
		{ "vision_config", NULL },
	},
};
