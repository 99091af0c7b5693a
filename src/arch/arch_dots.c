/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* dots.llm1: norms of q and k, experts in groups with sigmoid scores, a shared expert. */
const struct arch arch_dots1 = {
	.name = "dots1",
	.architectures = { "Dots1ForCausalLM" },
	.vector = { QK_NORMS,
		    [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "max_window_layers", "62" },
		{ "n_group", "1" },
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", NULL },
		{ "routed_scaling_factor", "1.0" },
		{ "sliding_window", "4096" },
		{ "topk_group", "1" },
	},
	.facts.ignored = {
		{ "scoring_func", "\"noaux_tc\"" },
		{ "topk_method", "\"noaux_tc\"" },
	},
};
