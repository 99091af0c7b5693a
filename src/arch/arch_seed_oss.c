/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Seed-OSS: Llama with biases of q, k and v. */
const struct arch arch_seed_oss = {
	.name = "seed_oss",
	.architectures = { "SeedOssForCausalLM" },
	.facts.keys = {
		{ "attention_bias", "true" },
		{ "attention_out_bias", "false" },
		{ "head_dim", "128" },
		{ "mlp_bias", "false" },
	},
	.facts.ignored = { { "residual_dropout", NULL } },
};
