/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mamba.h"

static const struct mamba_keys keys = {
	.n_heads = "mamba_n_heads",
	.head_dim = "mamba_d_head",
	.n_groups = "mamba_n_groups",
	.state_size = "mamba_d_state",
	.conv_width = "mamba_d_conv",
	.expand = "mamba_expand",
	.inner = "mamba_d_ssm",
	.limits = "time_step_limit",
	.has_norm = "mamba_rms_norm",
	.norm_first = "mamba_norm_before_gate",
	.beside_attention = true,
};

/* Falcon-H1: attention and Mamba-2 side by side in every layer, with factors of most values. */
const struct arch arch_falcon_h1 = {
	.name = "falcon_h1",
	.architectures = { "FalconH1ForCausalLM" },
	.linear = {
		[LINEAR_GATE] = "feed_forward.gate_proj",
		[LINEAR_UP] = "feed_forward.up_proj",
		[LINEAR_DOWN] = "feed_forward.down_proj",
	},
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
		{ "num_logits_to_keep", NULL },
		{ "projectors_bias", NULL },
	},
};
