/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* SmolLM3: Llama whose attention does not know positions in every fourth layer. */
const struct arch arch_smollm3 = {
	.name = "smollm3",
	.architectures = { "SmolLM3ForCausalLM" },
	.tied = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "mlp_bias", "false" },
		{ "no_rope_layer_interval", "4" },
		{ "no_rope_layers", NULL },
		{ "rope_theta", "2000000.0" },
	},
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "sliding_window", NULL },
	},
};
