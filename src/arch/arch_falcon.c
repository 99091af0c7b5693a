/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

static const struct mamba_keys keys = {
	MAMBA_KEYS,
	.inner = "mamba_d_ssm",
	.has_norm = "mamba_rms_norm",
	.norm_first = "mamba_norm_before_gate",
	.beside_attention = true,
};

/* Falcon-H1: attention and Mamba-2 side by side in every layer, with factors of most values. */
const struct arch arch_falcon_h1 = {
	.name = "falcon_h1",
	.architectures = { "FalconH1ForCausalLM" },
	.linear = { MLP("feed_forward") },
	.vector = {
		[VECTOR_NORM_MLP] = "pre_ff_layernorm.weight",
		MAMBA_VECTORS("mamba"),
	},
	.norm = "final_layernorm",
	.mamba = &keys,
	.facts.shared = mamba_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_in_multiplier", "1.0" },
		{ "attention_out_multiplier", "1.0" },
		{ "embedding_multiplier", "1.0" },
		{ "key_multiplier", "1.0" },
		{ "lm_head_multiplier", "1.0" },
		{ "mamba_d_ssm", "1024" },
		{ "mamba_norm_before_gate", "true" },
		{ "mamba_rms_norm", "false" },
		{ "mlp_bias", "false" },
		{ "mlp_multipliers", NULL },
		{ "rms_norm_eps", "1e-05" },
		{ "ssm_in_multiplier", "1.0" },
		{ "ssm_multipliers", NULL },
		{ "ssm_out_multiplier", "1.0" },
	},
	.facts.ignored = {
		{ "mamba_chunk_size", NULL },
		{ "mamba_use_mlp", "true" },
		{ "mlp_expansion_factor", NULL },
		{ "num_logits_to_keep", NULL },
		{ "projectors_bias", NULL },
		{ "time_step_floor", NULL },
		{ "time_step_max", NULL },
		{ "time_step_min", NULL },
	},
};
