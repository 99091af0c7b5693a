/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* GLM-4.7-Flash: the layers of DeepSeek-V3. */
const struct arch arch_glm4_moe_lite = {
	.name = "glm4_moe_lite",
	.architectures = { "Glm4MoeLiteForCausalLM" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.facts.shared_ignored = latent_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "kv_lora_rank", "512" },
		{ "n_group", "1" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "4" },
		{ "q_lora_rank", "768" },
		{ "qk_nope_head_dim", "192" },
		{ "qk_rope_head_dim", "64" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_interleave", "true" },
		{ "routed_scaling_factor", "1.8" },
		{ "topk_group", "1" },
		{ "v_head_dim", "256" },
	},
	.facts.ignored = { { "mlp_layer_types", NULL } },
};
