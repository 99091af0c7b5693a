/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* DeepSeek-V3.2: the layers of DeepSeek-V3 with sparse attention. */
const struct arch arch_deepseek_v32 = {
	.name = "deepseek_v32",
	.architectures = { "DeepseekV32ForCausalLM" },
	.text_types = { "deepseek_v32" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.adjacent_pairs = true,
	.facts.shared_ignored = latent_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "index_head_dim", "128" },
		{ "index_n_heads", "64" },
		{ "index_topk", "2048" },
		{ "kv_lora_rank", "512" },
		{ "n_group", "8" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "8" },
		{ "q_lora_rank", "1536" },
		{ "qk_nope_head_dim", "128" },
		{ "qk_rope_head_dim", "64" },
		{ "routed_scaling_factor", "2.5" },
		{ "topk_group", "4" },
		{ "v_head_dim", "128" },
	},
	.facts.ignored = {
		{ "head_dim", NULL }, /* transformers takes qk_rope_head_dim for it */
		{ "mlp_layer_types", NULL },
		{ "rope_interleave", "true" },
	},
};
