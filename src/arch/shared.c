/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of config.json that several rows share.  Defaults are transformers 5.24's.
 */
#include "arch/shared.h"

const struct fact_row mamba_facts[] = {
	{ "mamba_conv_bias", "true" },	{ "mamba_d_conv", "4" },
	{ "mamba_d_head", "\"auto\"" }, { "mamba_d_state", "256" },
	{ "mamba_expand", "2" },	{ "mamba_n_groups", "1" },
	{ "mamba_n_heads", "128" },	{ "mamba_proj_bias", "false" },
	{ "time_step_limit", NULL },	{ NULL, NULL },
};

const struct fact_row latent_facts[] = {
	{ "attention_bias", "false" },
	{ "kv_lora_rank", "512" },
	{ "n_group", "8" },
	{ "norm_topk_prob", "true" },
	{ "num_experts_per_tok", "8" },
	{ "q_lora_rank", "1536" },
	{ "qk_nope_head_dim", "128" },
	{ "qk_rope_head_dim", "64" },
	{ "routed_scaling_factor", "2.5" },
	{ "topk_group", "4" },
	{ "v_head_dim", "128" },
	{ NULL, NULL },
};

const struct ignored_row latent_ignored[] = {
	{ "qk_head_dim", NULL },
	{ "scoring_func", "\"sigmoid\"" },
	{ "topk_method", "\"noaux_tc\"" },
	{ NULL, NULL },
};

const struct fact_row bias_facts[] = {
	{ "n_group", "1" },
	{ "norm_topk_prob", "true" },
	{ "num_experts_per_tok", "8" },
	{ "routed_scaling_factor", "1.0" },
	{ "topk_group", "1" },
	{ NULL, NULL },
};

const struct ignored_row bias_ignored[] = {
	{ "scoring_func", "\"sigmoid\"" },
	{ "topk_method", "\"noaux_tc\"" },
	{ NULL, NULL },
};
