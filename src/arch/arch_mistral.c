/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Mistral: Llama with a sliding window. */
const struct arch arch_mistral = {
	.name = "mistral",
	.architectures = { "MistralForCausalLM" },
	.text_types = { "mistral" },
	.holders = "mistral3",
	.facts.keys = { { "sliding_window", "4096" } },
};

static const char ministral3_rope[] =
	"{\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "
	"\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
	"\"mscale_all_dim\": 1.0, \"mscale\": 1.0, \"llama_4_scaling_beta\": 0.1}";

/* Ministral 3: Mistral whose queries grow with their position. */
const struct arch arch_ministral3 = {
	.name = "ministral3",
	.architectures = { "Ministral3ForCausalLM" },
	.text_types = { "ministral3" },
	.positions.grown_queries = true,
	.facts.keys = {
		{ "head_dim", "128" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_parameters", ministral3_rope },
		{ "sliding_window", NULL },
	},
};

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

static const char mistral4_rope[] =
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
	.positions.grown_queries = true,
	.latents.head_dim_of = HEAD_DIM_OF_HEADS,
	.facts.shared = latent_facts,
	.facts.keys = {
		{ "kv_lora_rank", "256" },
		{ "n_group", "1" },
		{ "num_experts_per_tok", "4" },
		{ "q_lora_rank", "1024" },
		{ "qk_nope_head_dim", "64" },
		{ "rope_interleave", "true" },
		{ "rope_parameters", mistral4_rope },
		{ "routed_scaling_factor", "1.0" },
		{ "topk_group", "1" },
	},
	.facts.ignored = { { "qk_head_dim", NULL }, { "scoring_func", "\"softmax\"" } },
};
