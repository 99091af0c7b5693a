/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Qwen3-Next: gated DeltaNet in three of four layers, gated attention, experts and a shared one. */
const struct arch arch_qwen3_next = {
	.name = "qwen3_next",
	.architectures = { "Qwen3NextForCausalLM" },
	.linear = { [LINEAR_SHARED_GATE] = "mlp.shared_expert.gate_proj",
		    [LINEAR_SHARED_UP] = "mlp.shared_expert.up_proj",
		    [LINEAR_SHARED_DOWN] = "mlp.shared_expert.down_proj" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.norm_plus_one = true,
	.rotary_factor = 0.25,
	.attention_interval = 4,
	.gated_attention = true,
};
