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
