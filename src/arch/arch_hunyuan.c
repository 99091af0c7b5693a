/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Keys of tokens, of towers, of what is switched off by other keys, and of what all of these models
 * have. */
static const struct ignored_row hunyuan_ignored[] = {
	{ "anyres_pooling_size", NULL },
	{ "attention_head_dim", NULL },
	{ "cla_share_factor", NULL },
	{ "dense_list", NULL },
	{ "enable_lm_head_fp32", NULL },
	{ "eod_token_id", NULL },
	{ "im_end_id", NULL },
	{ "im_newline_id", NULL },
	{ "im_start_id", NULL },
	{ "image_token_id", NULL },
	{ "mask_init_id", NULL },
	{ "norm_type", NULL },
	{ "num_media_embeds", NULL },
	{ "org_vocab_size", NULL },
	{ "pad_id", NULL },
	{ "pool_type", NULL },
	{ "text_end_id", NULL },
	{ "text_start_id", NULL },
	{ "use_qk_norm", "true" },
	{ "use_rotary_pos_emb", "true" },
	{ "video_end_id", NULL },
	{ "video_start_id", NULL },
	{ "vit_input_resolution", NULL },
	{ "vit_mapping_type", NULL },
	{ "vit_norm_type", NULL },
	{ "vit_patch", NULL },
	{ "vit_token", NULL },
	{ NULL, NULL },
};

/* Hunyuan, dense: Llama with norms of q and k after their rotation. */
const struct arch arch_hunyuan_v1_dense = {
	.name = "hunyuan_v1_dense",
	.architectures = { "HunYuanDenseV1ForCausalLM" },
	.text_types = { "hunyuan_v1_dense" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.query_layernorm.weight",
		    [VECTOR_NORM_K] = "self_attn.key_layernorm.weight" },
	.head_norms = HEADS_AFTER_ROPE,
	.positions.rope_alpha = true,
	.facts.keys = { { "attention_bias", "false" }, { "rms_norm_eps", "1e-05" } },
	.facts.shared_ignored = hunyuan_ignored,
};

/* Hunyuan with experts, such as A13B, and a shared expert. */
const struct arch arch_hunyuan_v1_moe = {
	.name = "hunyuan_v1_moe",
	.architectures = { "HunYuanMoEV1ForCausalLM" },
	.text_types = { "hunyuan_v1_moe" },
	.linear = { [LINEAR_ROUTER] = "mlp.gate.wg",
		    SHARED_EXPERT("mlp.shared_mlp") },
	.vector = { [VECTOR_NORM_Q] = "self_attn.query_layernorm.weight",
		    [VECTOR_NORM_K] = "self_attn.key_layernorm.weight" },
	.head_norms = HEADS_AFTER_ROPE,
	.routing.norm_top_k = true,
	.positions.rope_alpha = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "moe_topk", "1" },
		{ "rms_norm_eps", "1e-05" },
	},
	.facts.shared_ignored = hunyuan_ignored,
	.facts.ignored = {
		{ "moe_layer_num_skipped", "0" },
		{ "norm_topk_prob", "true" },
		{ "routed_scaling_factor", "1.0" },
		{ "num_shared_expert", NULL },
		{ "use_mixed_mlp_moe", NULL },
	},
};

/* Hy3: norms of q and k, experts with sigmoid scores, a shared expert. */
const struct arch arch_hy_v3 = {
	.name = "hy_v3",
	.architectures = { "HYV3ForCausalLM" },
	.text_types = { "hy_v3" },
	.linear = { [LINEAR_ROUTER] = "mlp.router.gate",
		    SHARED_EXPERT("mlp.shared_mlp") },
	.vector = { QK_NORMS,
		    [VECTOR_ROUTER_BIAS] = "mlp.expert_bias" },
	.routing.norm_top_k = true,
	.routing.sigmoid = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "mlp_bias", "false" },
		{ "num_experts_per_tok", "8" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "11158840.0" },
		{ "router_scaling_factor", "2.826" },
	},
	.facts.ignored = {
		{ "enable_attention_fp32_softmax", NULL },
		{ "enable_lm_head_fp32", NULL },
		{ "enable_moe_fp32_combine", NULL },
		{ "expert_hidden_dim", NULL },
		{ "moe_router_enable_expert_bias", "true" },
		{ "moe_router_use_sigmoid", "true" },
		{ "qk_norm", "true" },
		{ "route_norm", "true" },
	},
};
