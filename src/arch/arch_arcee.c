/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Arcee: Llama whose mlp has no gate. */
const struct arch arch_arcee = {
	.name = "arcee",
	.architectures = { "ArceeForCausalLM" },
	.linear = { [LINEAR_GATE] = "", [LINEAR_GATE_UP] = "" },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "hidden_act", "\"relu2\"" },
		{ "mlp_bias", "false" },
		{ "rms_norm_eps", "1e-05" },
	},
};
