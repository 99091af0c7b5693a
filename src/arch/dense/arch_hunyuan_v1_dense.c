/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Hunyuan, dense: Llama with norms of q and k after their rotation. */
const struct arch arch_hunyuan_v1_dense = {
	.name = "hunyuan_v1_dense",
	.architectures = { "HunYuanDenseV1ForCausalLM" },
	.text_types = { "hunyuan_v1_dense" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.query_layernorm.weight",
		    [VECTOR_NORM_K] = "self_attn.key_layernorm.weight" },
	.head_norms = HEADS_AFTER_ROPE,
	.rope_alpha = true,
	.facts.keys = { { "attention_bias", "false" }, { "rms_norm_eps", "1e-05" } },
	.facts.shared_ignored = hunyuan_ignored,
};
