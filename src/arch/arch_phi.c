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
