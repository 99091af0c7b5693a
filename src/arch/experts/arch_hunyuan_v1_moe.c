/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

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
	.rope_alpha = true,
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
