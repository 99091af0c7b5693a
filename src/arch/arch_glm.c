/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* GLM-4 (0414): norms before and after attention and mlp, half of a head rotated by adjacent
 * pairs. */
const struct arch arch_glm4 = {
	.name = "glm4",
	.architectures = { "Glm4ForCausalLM" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_self_attn_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_mlp_layernorm.weight",
	},
	.positions.adjacent_pairs = true,
	.facts.keys = {
		{ "attention_bias", "true" },
		{ "head_dim", "128" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1.5625e-07" },
	},
};

/* The language model of GLM-4.1V and of GLM-4.6V Flash: GLM-4 with biases of q, k and v. */
const struct arch arch_glm4v = {
	.name = "glm4v",
	.text_types = { "glm4v_text" },
	.holders = "glm46v glmga",
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_self_attn_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_mlp_layernorm.weight",
	},
	.positions.adjacent_pairs = true,
	.facts.keys = {
		{ "partial_rotary_factor", "1.0" },
		{ "rms_norm_eps", "1e-05" },
	},
	.facts.ignored = { { "attention_bias", "true" } },
};

/* GLM-4.5: sigmoid scores of experts, a shared expert; half of a head is rotated. */
const struct arch arch_glm4_moe = {
	.name = "glm4_moe",
	.architectures = { "Glm4MoeForCausalLM" },
	.text_types = { "glm4_moe" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1e-05" },
		{ "use_qk_norm", "false" },
	},
};

/* The language model of GLM-4.5V and GLM-4.6V: GLM-4.5 without norms of q and k. */
const struct arch arch_glm4v_moe = {
	.name = "glm4v_moe",
	.text_types = { "glm4v_moe_text" },
	.vector = {
		[VECTOR_NORM_Q] = "",
		[VECTOR_NORM_K] = "",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
	},
	.routing.sigmoid = true,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "attention_bias", "true" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1e-05" },
	},
};

/* Solar Open: GLM-4.5 without norms of q and k, and with experts in every layer. */
const struct arch arch_solar_open = {
	.name = "solar_open",
	.architectures = { "SolarOpenForCausalLM" },
	.text_types = { "solar_open" },
	.vector = {
		[VECTOR_NORM_Q] = "",
		[VECTOR_NORM_K] = "",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
	},
	.routing.sigmoid = true,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "1000000.0" },
	},
};

/* Sarvam 30B: GLM-4.5 whose q, k and v are one matrix, with names of its own.  transformers saves
 * it as the class of GLM-4.5. */
const struct arch arch_sarvam_moe = {
	.name = "sarvam_moe",
	.architectures = { "SarvamMoEForCausalLM", "Glm4MoeForCausalLM" },
	.embedding = "word_embeddings",
	.linear = {
		[LINEAR_QKV] = "attention.query_key_value",
		[LINEAR_O] = "attention.dense",
	},
	.vector = {
		[VECTOR_NORM_Q] = "attention.query_layernorm.weight",
		[VECTOR_NORM_K] = "attention.key_layernorm.weight",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.expert_bias",
	},
	.routing.sigmoid = true,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "64" },
		{ "num_experts_per_tok", "6" },
		{ "partial_rotary_factor", "1.0" },
		{ "rms_norm_eps", "1e-06" },
		{ "rope_theta", "8000000.0" },
		{ "routed_scaling_factor", "2.5" },
		{ "use_qk_norm", "true" },
	},
	.facts.ignored = { { "use_qkv_bias", "false" } },
};

/* GLM-4.7-Flash: the layers of DeepSeek-V3. */
const struct arch arch_glm4_moe_lite = {
	.name = "glm4_moe_lite",
	.architectures = { "Glm4MoeLiteForCausalLM" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.facts.shared_ignored = latent_ignored,
	.facts.shared = latent_facts,
	.facts.keys = {
		{ "n_group", "1" },
		{ "num_experts_per_tok", "4" },
		{ "q_lora_rank", "768" },
		{ "qk_nope_head_dim", "192" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_interleave", "true" },
		{ "routed_scaling_factor", "1.8" },
		{ "topk_group", "1" },
		{ "v_head_dim", "256" },
	},
};

/* GLM-5: the layers of DeepSeek-V3.2.  Some take the keys that a layer before has
 * chosen. */
const struct arch arch_glm_moe_dsa = {
	.name = "glm_moe_dsa",
	.architectures = { "GlmMoeDsaForCausalLM" },
	.text_types = { "glm_moe_dsa" },
	.vector = { [VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias" },
	.routing.sigmoid = true,
	.scores = SCORES_YARN,
	.positions.adjacent_pairs = true,
	.positions.adjacent_index = true,
	.facts.shared_ignored = latent_ignored,
	.facts.shared = latent_facts,
	.facts.keys = {
		{ "index_head_dim", "128" },
		{ "index_n_heads", "32" },
		{ "index_skip_topk_offset", "2" },
		{ "index_topk", "2048" },
		{ "index_topk_freq", "1" },
		{ "index_topk_pattern", NULL },
		{ "indexer_types", NULL },
		{ "n_group", "1" },
		{ "q_lora_rank", "2048" },
		{ "qk_nope_head_dim", "192" },
		{ "rms_norm_eps", "1e-05" },
		{ "topk_group", "1" },
		{ "v_head_dim", "256" },
	},
	.facts.ignored = {
		{ "head_dim", NULL }, /* transformers takes qk_rope_head_dim for it */
		{ "index_share_for_mtp_iteration", NULL },
		{ "indexer_rope_interleave", "true" },
		{ "rope_interleave", "true" },
	},
};

/* The language model of GLM-5.3-Flash: hyper-connections; Kimi Delta Attention, and in one of four
 * layers latent attention without positions that chooses pools of keys; the experts of
 * DeepSeek-V3. */
const struct arch arch_glm5_next = {
	.name = "glm5_next",
	.architectures = { "Glm5NextForConditionalGeneration" },
	.text_types = { "glm5_next_text" },
	.linear = {
		KDA_MATRICES("self_attn"),
		[LINEAR_DELTA_F_A] = "self_attn.f_a_proj",
		[LINEAR_DELTA_F_B] = "self_attn.f_b_proj",
		[LINEAR_DELTA_G_A] = "self_attn.g_a_proj",
		[LINEAR_DELTA_G_B] = "self_attn.g_b_proj",
		[LINEAR_DELTA_OUT] = "self_attn.o_proj",
		[LINEAR_INDEX_GATE] = "self_attn.indexer.index_kpool_compress_gate",
	},
	.vector = {
		KDA_VECTORS("self_attn"),
		[VECTOR_INDEX_PLACES] = "self_attn.indexer.index_kpool_compress_ape",
		[VECTOR_MIX_ATTENTION] = "hc_attn_fn",
		[VECTOR_MIX_ATTENTION_BASE] = "hc_attn_base",
		[VECTOR_MIX_ATTENTION_SCALE] = "hc_attn_scale",
		[VECTOR_MIX_MLP] = "hc_ffn_fn",
		[VECTOR_MIX_MLP_BASE] = "hc_ffn_base",
		[VECTOR_MIX_MLP_SCALE] = "hc_ffn_scale",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
	},
	.routing.sigmoid = true,
	.latents = { .head_dim_of = HEAD_DIM_IGNORED, .model_eps = true, .without_rope = true },
	.positions.bare_gates = true,
	.positions.layer_pattern = "|LLLF",
	.positions.rotating = ROTATING_NONE,
	.facts.shared = latent_facts,
	.facts.shared_ignored = latent_ignored,
	.facts.keys = {
		{ "hc_eps", "1e-06" },
		{ "hc_mult", "4" },
		{ "hc_sinkhorn_iters", "20" },
		{ "index_head_dim", "128" },
		{ "index_kpool", "16" },
		{ "index_n_heads", "32" },
		{ "index_skip_topk_offset", "2" },
		{ "index_topk", "2048" },
		{ "index_topk_freq", "1" },
		{ "index_topk_pattern", NULL },
		{ "indexer_types", NULL },
		{ "linear_attn_config", NULL },
		{ "linear_conv_kernel_dim", "4" },
		{ "linear_head_dim", "128" },
		{ "linear_lower_bound", "-5.0" },
		{ "linear_num_heads", "64" },
		{ "n_group", "1" },
		{ "qk_nope_head_dim", "256" },
		{ "qk_rope_head_dim", "0" },
		{ "rms_norm_eps", "1e-05" },
		{ "swiglu_limit", "10.0" },
		{ "topk_group", "1" },
		{ "v_head_dim", "256" },
	},
	.facts.ignored = {
		{ "head_dim", NULL }, /* transformers takes qk_rope_head_dim for it */
		{ "index_kpool_always_select_tail", "true" },
		{ "index_kpool_compress", "true" },
		{ "index_share_for_mtp_iteration", NULL },
		{ "indexer_rope_interleave", NULL },
		{ "mhc", "true" },
		{ "partial_rotary_factor", NULL },
		{ "rope_interleave", NULL },
	},
};
