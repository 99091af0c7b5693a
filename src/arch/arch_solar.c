/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Solar Open: experts with sigmoid scores and a shared one in every layer. */
const struct arch arch_solar_open = {
	.name = "solar_open",
	.architectures = { "SolarOpenForCausalLM" },
	.text_types = { "solar_open" },
	.vector = {
		[VECTOR_NORM_Q] = "",
		[VECTOR_NORM_K] = "",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
	},
	.routing.sigmoid = true,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "1000000.0" },
	},
};
