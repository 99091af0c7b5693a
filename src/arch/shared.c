/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of config.json that several rows share.  Defaults are transformers 5.23's.
 */
#include "arch/shared.h"

const struct fact_row delta_facts[] = {
	{ "full_attention_interval", "4" },
	{ "linear_conv_kernel_dim", "4" },
	{ "linear_key_head_dim", "128" },
	{ "linear_num_key_heads", "16" },
	{ "linear_num_value_heads", "32" },
	{ "linear_value_head_dim", "128" },
	{ NULL, NULL },
};

const struct fact_row mamba_facts[] = {
	{ "mamba_conv_bias", "true" },	{ "mamba_d_conv", "4" },
	{ "mamba_d_head", "\"auto\"" }, { "mamba_d_state", "256" },
	{ "mamba_expand", "2" },	{ "mamba_n_groups", "1" },
	{ "mamba_n_heads", "128" },	{ "mamba_proj_bias", "false" },
	{ "time_step_limit", NULL },	{ NULL, NULL },
};

const struct fact_row granite_facts[] = {
	{ "attention_multiplier", "1.0" },
	{ "embedding_multiplier", "1.0" },
	{ "logits_scaling", "1.0" },
	{ "residual_multiplier", "1.0" },
	{ NULL, NULL },
};

const struct ignored_row delta_ignored[] = {
	{ "attn_output_gate", "true" },
	{ "mamba_ssm_dtype", NULL },
	{ "mtp_num_hidden_layers", NULL },
	{ "output_gate_type", "\"silu\"" },
	/* another name of silu */
	{ "output_gate_type", "\"swish\"" },
	{ "use_qk_norm", "true" },
	{ NULL, NULL },
};

const struct ignored_row latent_ignored[] = {
	{ "qk_head_dim", NULL },
	{ "scoring_func", "\"sigmoid\"" },
	{ "topk_method", "\"noaux_tc\"" },
	{ NULL, NULL },
};

/* Keys of tokens, of towers, of what is switched off by other keys, and of what all of these models
 * have. */
const struct ignored_row hunyuan_ignored[] = {
	{ "anyres_pooling_size", NULL },
	{ "attention_head_dim", NULL },
	{ "cla_share_factor", NULL },
	{ "dense_list", NULL },
	{ "enable_lm_head_fp32", NULL },
	{ "eod_token_id", NULL },
	{ "im_end_id", NULL },
	{ "im_newline_id", NULL },
	{ "im_start_id", NULL },
	{ "image_token_id", NULL },
	{ "mask_init_id", NULL },
	{ "norm_type", NULL },
	{ "num_media_embeds", NULL },
	{ "org_vocab_size", NULL },
	{ "pad_id", NULL },
	{ "pool_type", NULL },
	{ "text_end_id", NULL },
	{ "text_start_id", NULL },
	{ "use_qk_norm", "true" },
	{ "use_rotary_pos_emb", "true" },
	{ "video_end_id", NULL },
	{ "video_start_id", NULL },
	{ "vit_input_resolution", NULL },
	{ "vit_mapping_type", NULL },
	{ "vit_norm_type", NULL },
	{ "vit_patch", NULL },
	{ "vit_token", NULL },
	{ NULL, NULL },
};
