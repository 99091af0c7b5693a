/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Qwen 2 and 2.5: biases of q, k and v; a window in the upper layers, by use_sliding_window. */
const struct arch arch_qwen2 = {
	.name = "qwen2",
	.architectures = { "Qwen2ForCausalLM" },
	.text_types = { "qwen2", "qwen2_5_vl_text" },
	.facts.keys = {
		{ "max_window_layers", "28" },
		{ "sliding_window", "4096" },
		{ "use_sliding_window", "false" },
	},
};
