/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

static const struct mamba_keys keys = {
	MAMBA_KEYS,
	.layers = "attn_layer_indices",
};

/* Bamba: Mamba-2 in most layers; attention rotates half of a head. */
const struct arch arch_bamba = {
	.name = "bamba",
	.architectures = { "BambaForCausalLM" },
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
		{ "attn_layer_indices", NULL },
		{ "mlp_bias", "false" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1e-05" },
	},
	.facts.ignored = {
		{ "attn_rotary_emb", NULL }, /* half of head_dim in the releases */
		{ "mamba_chunk_size", NULL },
		{ "num_logits_to_keep", NULL },
		{ "z_loss_coefficient", NULL },
	},
};
