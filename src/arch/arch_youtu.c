/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Youtu-LLM: the attention of DeepSeek-V3, and a dense mlp in every layer. */
const struct arch arch_youtu = {
	.name = "youtu",
	.architectures = { "YoutuForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "" },
	.tied = true,
	.scores = SCORES_YARN,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "kv_lora_rank", "512" },
		{ "q_lora_rank", "1536" },
		{ "qk_nope_head_dim", "128" },
		{ "qk_rope_head_dim", "64" },
		{ "rope_interleave", "true" },
		{ "v_head_dim", "128" },
	},
	.facts.ignored = {
		{ "embedding_initializer_range", NULL },
		{ "mlp_bias", "false" },
		{ "qk_head_dim", NULL },
	},
};
