/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Qwen 1.5 and 2 with experts, and a shared expert whose weight has a router of its own. */
const struct arch arch_qwen2_moe = {
	.name = "qwen2_moe",
	.architectures = { "Qwen2MoeForCausalLM" },
	.linear = { [LINEAR_SHARED_GATE] = "mlp.shared_expert.gate_proj",
		    [LINEAR_SHARED_UP] = "mlp.shared_expert.up_proj",
		    [LINEAR_SHARED_DOWN] = "mlp.shared_expert.down_proj" },
	.facts.keys = {
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "4" },
	},
	/* a window is refused: transformers decides by max_window_layers and by turns */
	.facts.ignored = { { "max_window_layers", NULL },
			   { "qkv_bias", NULL },
			   { "sliding_window", NULL } },
};
