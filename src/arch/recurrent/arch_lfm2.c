/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* LFM2: gated short convolutions in most layers.  The keys that are ignored are of its releases;
 * the tensors say the sizes among them. */
const struct arch arch_lfm2 = {
	.name = "lfm2",
	.architectures = { "Lfm2ForCausalLM" },
	.text_types = { "lfm2" },
	.linear = {
		LFM2_MATRICES,
	},
	.vector = {
		LFM2_VECTORS,
	},
	.norm = "embedding_norm",
	.tied = true,
	.facts.keys = {
		{ "conv_L_cache", "3" },
		{ "conv_bias", "false" },
		{ "full_attn_idxs", NULL },
		{ "norm_eps", "1e-05" },
		{ "rope_theta", "1000000.0" },
	},
	.facts.ignored = {
		{ "block_auto_adjust_ff_dim", NULL },
		{ "block_dim", NULL },
		{ "block_ff_dim", NULL },
		{ "block_ffn_dim_multiplier", NULL },
		{ "block_mlp_init_scale", NULL },
		{ "block_multiple_of", NULL },
		{ "block_norm_eps", NULL },
		{ "block_out_init_scale", NULL },
		{ "block_use_swiglu", "true" },
		{ "block_use_xavier_init", NULL },
		{ "conv_dim", NULL },
		{ "conv_dim_out", NULL },
		{ "conv_use_xavier_init", NULL },
		{ "hidden_act", NULL },
		{ "num_heads", NULL },
		{ "theta", NULL },
		{ "tie_embedding", "true" },
		{ "use_pos_enc", "true" },
	},
};
