/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* GLM-4.5: sigmoid scores of experts, a shared expert; half of a head is rotated. */
const struct arch arch_glm4_moe = {
	.name = "glm4_moe",
	.architectures = { "Glm4MoeForCausalLM" },
	.text_types = { "glm4_moe" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "n_group", "1" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "8" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1e-05" },
		{ "routed_scaling_factor", "1.0" },
		{ "topk_group", "1" },
		{ "use_qk_norm", "false" },
	},
	.facts.ignored = {
		{ "scoring_func", "\"sigmoid\"" },
		{ "topk_method", "\"noaux_tc\"" },
	},
};
