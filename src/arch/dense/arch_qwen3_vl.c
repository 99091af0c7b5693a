/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* The language model of Qwen3-VL: Qwen 3 with another base of its angles. */
const struct arch arch_qwen3_vl = {
	.name = "qwen3_vl",
	.text_types = { "qwen3_vl_text" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "rope_theta", "500000.0" },
	},
};
