/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* DeepSeek-V2 and Coder-V2: latent attention; softmax scores of experts, shared experts. */
const struct arch arch_deepseek_v2 = {
	.name = "deepseek_v2",
	.architectures = { "DeepseekV2ForCausalLM" },
	.text_types = { "deepseek_v2" },
	.scores = SCORES_YARN,
	.adjacent_pairs = true,
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
