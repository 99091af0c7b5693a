/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* DeepSeek-V3 and R1: latent attention; experts in groups, sigmoid scores, a shared expert. */
const struct arch arch_deepseek_v3 = {
	.name = "deepseek_v3",
	.architectures = { "DeepseekV3ForCausalLM" },
	.text_types = { "deepseek_v3", "kimi_k2" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.facts.shared_ignored = latent_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "kv_lora_rank", "512" },
		{ "n_group", "8" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "8" },
		{ "q_lora_rank", "1536" },
		{ "qk_nope_head_dim", "128" },
		{ "qk_rope_head_dim", "64" },
		{ "rope_interleave", "true" },
		{ "routed_scaling_factor", "2.5" },
		{ "topk_group", "4" },
		{ "v_head_dim", "128" },
	},
};
