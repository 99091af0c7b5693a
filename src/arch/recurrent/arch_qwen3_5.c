/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Qwen 3.5, dense: gated DeltaNet in three of four layers, and gated attention. */
const struct arch arch_qwen3_5 = {
	.name = "qwen3_5",
	.architectures = { "Qwen3_5ForCausalLM" },
	.text_types = { "qwen3_5_text" },
	.vector = { [VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		    [VECTOR_NORM_K] = "self_attn.k_norm.weight" },
	.norm_plus_one = true,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "partial_rotary_factor", "0.25" },
	},
	.facts.ignored = { { "attn_output_gate", "true" },
			   { "mamba_ssm_dtype", NULL },
			   { "mtp_num_hidden_layers", NULL } },
};
