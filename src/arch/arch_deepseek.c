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
	.holders = "kimi_k25 KimiK25ForConditionalGeneration",
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

/* DeepSeek-V4: hyper-connections; one head that is key and value, with a window and compressed keys
 * behind it; experts by scores or by the token.  The names are the release's, below no prefix. */
const struct arch arch_deepseek_v4 = {
	.name = "deepseek_v4",
	.architectures = { "DeepseekV4ForCausalLM" },
	.text_types = { "deepseek_v4" },
	.embedding = "embed",
	.last_mix = "hc_head",
	.linear = {
		[LINEAR_Q_A] = "attn.wq_a",
		[LINEAR_Q_B] = "attn.wq_b",
		[LINEAR_K] = "attn.wkv",
		[LINEAR_POOL] = "attn.compressor.wkv",
		[LINEAR_POOL_GATE] = "attn.compressor.wgate",
		[LINEAR_INDEX_Q] = "attn.indexer.wq_b",
		[LINEAR_INDEX_K] = "attn.indexer.compressor.wkv",
		[LINEAR_INDEX_GATE] = "attn.indexer.compressor.wgate",
		[LINEAR_INDEX_WEIGHTS] = "attn.indexer.weights_proj",
		[LINEAR_O] = "attn.wo_a",
		[LINEAR_O_JOIN] = "attn.wo_b",
		[LINEAR_ROUTER] = "ffn.gate",
		[LINEAR_SHARED_GATE] = "ffn.shared_experts.w1",
		[LINEAR_SHARED_UP] = "ffn.shared_experts.w3",
		[LINEAR_SHARED_DOWN] = "ffn.shared_experts.w2",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION] = "attn_norm.weight",
		[VECTOR_NORM_MLP] = "ffn_norm.weight",
		[VECTOR_NORM_Q] = "",
		[VECTOR_NORM_K] = "attn.kv_norm.weight",
		[VECTOR_NORM_Q_A] = "attn.q_norm.weight",
		[VECTOR_NORM_INDEX_K] = "attn.indexer.compressor.norm.weight",
		[VECTOR_NORM_INDEX_K_BIAS] = "",
		[VECTOR_POOL_PLACES] = "attn.compressor.ape",
		[VECTOR_NORM_POOL] = "attn.compressor.norm.weight",
		[VECTOR_INDEX_PLACES] = "attn.indexer.compressor.ape",
		[VECTOR_MIX_ATTENTION] = "hc_attn_fn",
		[VECTOR_MIX_ATTENTION_BASE] = "hc_attn_base",
		[VECTOR_MIX_ATTENTION_SCALE] = "hc_attn_scale",
		[VECTOR_MIX_MLP] = "hc_ffn_fn",
		[VECTOR_MIX_MLP_BASE] = "hc_ffn_base",
		[VECTOR_MIX_MLP_SCALE] = "hc_ffn_scale",
		[VECTOR_ROUTER_BIAS] = "ffn.gate.bias",
		[VECTOR_ROUTER_TABLE] = "ffn.gate.tid2eid",
		[VECTOR_SINKS] = "attn.attn_sink",
	},
	.expert = { EXPERTS_W("ffn.experts") },
	.head_norms = HEADS_PLAIN_QUERIES,
	.positions.layer_ropes = true,
	.positions.turns_back = true,
	.routing.norm_top_k = true,
	.facts.keys = {
		{ "compress_rate_csa", NULL },
		{ "compress_rate_hca", NULL },
		{ "compress_rates", NULL },
		{ "compress_ratios", NULL },
		{ "compress_rope_theta", "160000.0" },
		{ "hc_eps", "1e-06" },
		{ "hc_mult", "4" },
		{ "hc_sinkhorn_iters", "20" },
		{ "head_dim", "512" },
		{ "index_head_dim", "128" },
		{ "index_n_heads", "64" },
		{ "index_topk", "512" },
		{ "mlp_bias", "false" },
		{ "num_experts_per_tok", "6" },
		{ "num_hash_layers", "3" },
		{ "o_groups", "8" },
		{ "o_lora_rank", "1024" },
		{ "partial_rotary_factor", NULL },
		{ "q_lora_rank", "1024" },
		{ "qk_rope_head_dim", NULL },
		{ "routed_scaling_factor", "1.5" },
		{ "scoring_func", "\"sqrtsoftplus\"" },
		{ "sliding_window", "128" },
		{ "swiglu_limit", "10.0" },
	},
	.facts.ignored = {
		{ "attention_bias", "false" },
		{ "default_compress_rates", NULL },
		{ "default_num_hash_layers", NULL },
		{ "default_partial_rotary_factor", NULL },
		{ "expert_dtype", NULL },
		{ "norm_topk_prob", NULL }, /* weights are always divided by their sum */
		{ "topk_method", "\"noaux_tc\"" },
	},
};

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

/* Sarvam 105B: DeepSeek-V3 whose experts are in one group.  transformers saves it as the class of
 * DeepSeek-V3. */
const struct arch arch_sarvam_mla = {
	.name = "sarvam_mla",
	.architectures = { "SarvamMLAForCausalLM", "DeepseekV3ForCausalLM" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.latents.head_dim_of = HEAD_DIM_IGNORED,
	.facts.shared_ignored = latent_ignored,
	.facts.shared = latent_facts,
	.facts.keys = {
		{ "n_group", "1" },
		{ "q_lora_rank", NULL },
		{ "rope_interleave", "true" },
		{ "topk_group", "1" },
	},
	.facts.ignored = {
		{ "head_dim", NULL },
		{ "q_head_dim", NULL },
	},
};
