/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* The language model of Qwen3-VL: Qwen 3 with another base of its angles. */
const struct arch arch_qwen3_vl = {
	.name = "qwen3_vl",
	.text_types = { "qwen3_vl_text" },
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "rope_theta", "500000.0" },
	},
};
