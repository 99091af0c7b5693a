/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* MiniMax-M2: norms of the heads of a token together, a part of a head rotated, experts with
 * sigmoid scores. */
const struct arch arch_minimax_m2 = {
	.name = "minimax_m2",
	.architectures = { "MiniMaxM2ForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "block_sparse_moe.gate" },
	.vector = { QK_NORMS,
		    [VECTOR_ROUTER_BIAS] = "block_sparse_moe.e_score_correction_bias" },
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.head_norms = HEADS_TOGETHER,
	.routing.norm_top_k = true,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "head_dim", "128" },
		{ "num_experts_per_tok", "8" },
		{ "partial_rotary_factor", "1.0" },
		{ "rope_theta", "5000000.0" },
		{ "rotary_dim", NULL },
	},
	.facts.ignored = {
		{ "attn_type_list", NULL },
		/* of MiniMax-Text-01: factors of residuals, and what joins a shared expert */
		{ "layernorm_full_attention_beta", "1.0" },
		{ "layernorm_linear_attention_beta", "1.0" },
		{ "layernorm_mlp_beta", "1.0" },
		{ "mlp_intermediate_size", NULL },
		{ "mtp_transformer_layers", NULL },
		{ "num_mtp_modules", NULL },
		{ "qk_norm_type", "\"per_layer\"" },
		{ "scoring_func", "\"sigmoid\"" },
		{ "shared_moe_mode", NULL },
		{ "use_mtp", NULL },
		{ "use_qk_norm", "true" },
		{ "use_routing_bias", "true" },
	},
};

/* The language model of MiniMax-M3: layers that choose blocks of keys, experts and mlps with
 * GPT-OSS's activation, norms of each head. */
const struct arch arch_minimax_m3 = {
	.name = "minimax_m3_vl",
	.architectures = { "MiniMaxM3VLForCausalLM", "MiniMaxM3SparseForConditionalGeneration" },
	.text_types = { "minimax_m3_vl_text" },
	.linear = { [LINEAR_ROUTER] = "block_sparse_moe.gate",
		    SHARED_EXPERT("block_sparse_moe.shared_experts"),
		    [LINEAR_GATE_UP] = "",
		    [LINEAR_INDEX_Q] = "",
		    [LINEAR_INDEX_WEIGHTS] = "",
		    [LINEAR_INDEX_Q_HIDDEN] = "self_attn.index_q_proj",
		    [LINEAR_INDEX_K] = "self_attn.index_k_proj" },
	.vector = { QK_NORMS,
		    [VECTOR_NORM_INDEX_Q] = "self_attn.index_q_norm.weight",
		    [VECTOR_NORM_INDEX_K] = "self_attn.index_k_norm.weight",
		    [VECTOR_NORM_INDEX_K_BIAS] = "",
		    [VECTOR_ROUTER_BIAS] = "block_sparse_moe.e_score_correction_bias" },
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.clamped = true,
	.norms = NORMS_PLUS_ONE,
	.routing.norm_top_k = true,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "head_dim", "128" },
		{ "index_block_size", "128" },
		{ "index_head_dim", "128" },
		{ "index_local_blocks", "1" },
		{ "index_n_heads", "4" },
		{ "index_topk_blocks", "16" },
		{ "num_experts_per_tok", "4" },
		{ "partial_rotary_factor", "1.0" },
		{ "rope_theta", "5000000.0" },
		{ "routed_scaling_factor", "2.0" },
		{ "sparse_attention_config", NULL },
		{ "swiglu_alpha", "1.702" },
		{ "swiglu_limit", "7.0" },
	},
	.facts.ignored = {
		{ "dense_intermediate_size", NULL },
		{ "hidden_act", NULL }, /* transformers takes silu for all */
		{ "num_mtp_modules", NULL },
		{ "qk_norm_type", "\"per_head\"" },
		{ "rotary_dim", NULL }, /* transformers takes partial_rotary_factor */
		{ "scoring_func", "\"sigmoid\"" },
		{ "shared_intermediate_size", NULL },
		{ "use_gemma_norm", "true" },
		{ "use_qk_norm", "true" },
		{ "use_routing_bias", "true" },
	},
};
