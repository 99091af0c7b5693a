/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* GLM-5: the layers of DeepSeek-V3.2.  In some the indexer is that of a layer before. */
const struct arch arch_glm_moe_dsa = {
	.name = "glm_moe_dsa",
	.architectures = { "GlmMoeDsaForCausalLM" },
	.text_types = { "glm_moe_dsa" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.adjacent_pairs = true,
	.facts.shared_ignored = latent_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "index_head_dim", "128" },
		{ "index_n_heads", "32" },
		{ "index_topk", "2048" },
		{ "kv_lora_rank", "512" },
		{ "n_group", "1" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "8" },
		{ "q_lora_rank", "2048" },
		{ "qk_nope_head_dim", "192" },
		{ "qk_rope_head_dim", "64" },
		{ "rms_norm_eps", "1e-05" },
		{ "routed_scaling_factor", "2.5" },
		{ "topk_group", "1" },
		{ "v_head_dim", "256" },
	},
	.facts.ignored = {
		{ "head_dim", NULL }, /* transformers takes qk_rope_head_dim for it */
		{ "index_share_for_mtp_iteration", NULL },
		{ "index_skip_topk_offset", NULL },
		{ "index_topk_freq", NULL },
		{ "index_topk_pattern", NULL },
		{ "indexer_rope_interleave", NULL },
		{ "indexer_types", NULL },
		{ "mlp_layer_types", NULL },
		{ "rope_interleave", "true" },
	},
};
