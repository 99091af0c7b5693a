/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Qwen 3.5 with experts and a shared one: gated DeltaNet in three of four layers, and gated
 * attention. */
const struct arch arch_qwen3_5_moe = {
	.name = "qwen3_5_moe",
	.architectures = { "Qwen3_5MoeForCausalLM" },
	.text_types = { "qwen3_5_moe_text" },
	.linear = { [LINEAR_SHARED_GATE] = "mlp.shared_expert.gate_proj",
		    [LINEAR_SHARED_UP] = "mlp.shared_expert.up_proj",
		    [LINEAR_SHARED_DOWN] = "mlp.shared_expert.down_proj" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.norm_top_k = true,
	.norm_plus_one = true,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "num_experts_per_tok", "8" },
		{ "partial_rotary_factor", "0.25" },
	},
	.facts.ignored = { { "attn_output_gate", "true" },
			   { "mamba_ssm_dtype", NULL },
			   { "mtp_num_hidden_layers", NULL } },
};
