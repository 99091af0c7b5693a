/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

static const char default_rope[] =
	"{\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "
	"\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
	"\"mscale_all_dim\": 1.0, \"mscale\": 1.0, \"llama_4_scaling_beta\": 0.1}";

/* Ministral 3: Mistral whose queries grow with their position. */
const struct arch arch_ministral3 = {
	.name = "ministral3",
	.architectures = { "Ministral3ForCausalLM" },
	.text_types = { "ministral3" },
	.grown_queries = true,
	.facts.keys = {
		{ "head_dim", "128" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_parameters", default_rope },
		{ "sliding_window", NULL },
	},
};
