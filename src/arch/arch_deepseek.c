/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* DeepSeek-V2 and Coder-V2: latent attention; softmax scores of experts, shared experts. */
const struct arch arch_deepseek_v2 = {
	.name = "deepseek_v2",
	.architectures = { "DeepseekV2ForCausalLM" },
	.text_types = { "deepseek_v2" },
	.scores = SCORES_YARN,
	.positions.adjacent_pairs = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "kv_lora_rank", "512" },
		{ "mlp_bias", "false" },
		{ "n_group", NULL },
		{ "num_experts_per_tok", NULL },
		{ "q_lora_rank", "1536" },
		{ "qk_nope_head_dim", "128" },
		{ "qk_rope_head_dim", "64" },
		{ "routed_scaling_factor", "1.0" },
		{ "topk_group", NULL },
		{ "topk_method", "\"greedy\"" },
		{ "v_head_dim", "128" },
	},
	.facts.ignored = {
		{ "head_dim", NULL }, /* transformers takes qk_rope_head_dim for it */
		{ "norm_topk_prob", "false" },
		{ "qk_head_dim", NULL },
		{ "rope_interleave", "true" },
		{ "scoring_func", "\"softmax\"" },
	},
};

/* DeepSeek-V3 and R1: latent attention; experts in groups, sigmoid scores, a shared expert. */
const struct arch arch_deepseek_v3 = {
	.name = "deepseek_v3",
	.architectures = { "DeepseekV3ForCausalLM" },
	.text_types = { "deepseek_v3", "kimi_k2" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.facts.shared_ignored = latent_ignored,
	.facts.shared = latent_facts,
	.facts.keys = { { "rope_interleave", "true" } },
};

/* DeepSeek-V3.2: the layers of DeepSeek-V3 with sparse attention. */
const struct arch arch_deepseek_v32 = {
	.name = "deepseek_v32",
	.architectures = { "DeepseekV32ForCausalLM" },
	.text_types = { "deepseek_v32" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.positions.adjacent_pairs = true,
	.facts.shared_ignored = latent_ignored,
	.facts.shared = latent_facts,
	.facts.keys = {
		{ "index_head_dim", "128" },
		{ "index_n_heads", "64" },
		{ "index_topk", "2048" },
	},
	.facts.ignored = {
		{ "head_dim", NULL }, /* transformers takes qk_rope_head_dim for it */
		{ "rope_interleave", "true" },
	},
};
