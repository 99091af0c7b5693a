/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

static const char default_rope[] =
	"{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 128.0, "
	"\"original_max_position_embeddings\": 8192, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
	"\"mscale_all_dim\": 1.0, \"mscale\": 1.0, \"llama_4_scaling_beta\": 0.1}";

/* Mistral 4: the attention of DeepSeek-V3, with queries that grow with their position; softmax
 * scores of experts, and a shared expert. */
const struct arch arch_mistral4 = {
	.name = "mistral4",
	.architectures = { "Mistral4ForCausalLM" },
	.text_types = { "mistral4" },
	.scores = SCORES_YARN,
	.grown_queries = true,
	.head_dim_of = HEAD_DIM_OF_HEADS,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "kv_lora_rank", "256" },
		{ "n_group", "1" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "4" },
		{ "q_lora_rank", "1024" },
		{ "qk_nope_head_dim", "64" },
		{ "qk_rope_head_dim", "64" },
		{ "rope_interleave", "true" },
		{ "rope_parameters", default_rope },
		{ "routed_scaling_factor", "1.0" },
		{ "topk_group", "1" },
		{ "v_head_dim", "128" },
	},
	.facts.ignored = { { "qk_head_dim", NULL }, { "scoring_func", "\"softmax\"" } },
};
