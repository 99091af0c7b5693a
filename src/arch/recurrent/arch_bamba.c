/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mamba.h"

static const struct mamba_keys keys = {
	.n_heads = "mamba_n_heads",
	.head_dim = "mamba_d_head",
	.n_groups = "mamba_n_groups",
	.state_size = "mamba_d_state",
	.conv_width = "mamba_d_conv",
	.expand = "mamba_expand",
	.limits = "time_step_limit",
	.layers = "attn_layer_indices",
};

/* Bamba: Mamba-2 in most layers; attention rotates half of a head. */
const struct arch arch_bamba = {
	.name = "bamba",
	.architectures = { "BambaForCausalLM" },
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
		{ "attn_layer_indices", NULL },
		{ "mlp_bias", "false" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1e-05" },
	},
	.facts.ignored = {
		{ "mamba_chunk_size", NULL },
		{ "num_logits_to_keep", NULL },
		{ "z_loss_coefficient", NULL },
	},
};
