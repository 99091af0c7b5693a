/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Mixtral: w1 is the gate, w3 up, w2 down. */
const struct arch arch_mixtral = {
	.name = "mixtral",
	.architectures = { "MixtralForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "block_sparse_moe.gate" },
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.routing.norm_top_k = true,
	.facts.keys = {
		{ "num_experts_per_tok", "2" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "1000000.0" },
		{ "sliding_window", NULL },
	},
};
