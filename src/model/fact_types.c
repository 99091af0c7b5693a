/* SPDX-License-Identifier: Apache-2.0 */
#include "model/facts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

#define MAX_COUNT 1000000000

enum fact_type {
	FACT_NUMBER,
	FACT_COUNT,
	FACT_COUNT_OR_TEXT,
	FACT_COUNT_OR_LIST,
	FACT_NUMBER_OR_LIST,
	FACT_FLAG,
	FACT_TEXT,
	FACT_LIST,
	FACT_LIST_OR_TEXT,
	FACT_OBJECT
};

/* The type of a key, at any level: rope_parameters and other objects have members of their own. */
static const struct {
	const char *key;
	enum fact_type type;
} types[] = {
	{ "alpha", FACT_NUMBER },
	{ "attention_bias", FACT_FLAG },
	{ "attention_chunk_size", FACT_COUNT },
	{ "attention_factor", FACT_NUMBER },
	{ "attention_in_multiplier", FACT_NUMBER },
	{ "attention_k_eq_v", FACT_FLAG },
	{ "attention_multiplier", FACT_NUMBER },
	{ "attention_other_setting", FACT_OBJECT },
	{ "attention_out_bias", FACT_FLAG },
	{ "attention_out_multiplier", FACT_NUMBER },
	{ "attention_value_scale", FACT_NUMBER },
	{ "attn_layer_indices", FACT_LIST },
	{ "attn_layer_offset", FACT_COUNT },
	{ "attn_layer_period", FACT_COUNT },
	{ "attn_logit_softcapping", FACT_NUMBER },
	{ "attn_scale", FACT_NUMBER },
	{ "attn_temperature_tuning", FACT_FLAG },
	{ "beta_fast", FACT_NUMBER },
	{ "beta_slow", FACT_NUMBER },
	{ "compress_rate_csa", FACT_COUNT },
	{ "compress_rate_hca", FACT_COUNT },
	{ "compress_rates", FACT_OBJECT },
	{ "compress_ratios", FACT_LIST },
	{ "compress_rope_theta", FACT_NUMBER },
	{ "conv_L_cache", FACT_COUNT },
	{ "conv_bias", FACT_FLAG },
	{ "conv_kernel", FACT_COUNT },
	{ "conv_kernel_size", FACT_COUNT },
	{ "d_rel", FACT_COUNT },
	{ "dense_mlp_idx", FACT_COUNT },
	{ "embedding_multiplier", FACT_NUMBER },
	{ "enable_moe_block", FACT_FLAG },
	{ "factor", FACT_NUMBER },
	{ "final_logit_softcapping", FACT_NUMBER },
	{ "floor_scale", FACT_COUNT },
	{ "full_attention_interval", FACT_COUNT },
	{ "full_attn_idxs", FACT_LIST },
	{ "full_attn_layers", FACT_LIST },
	{ "gate_lower_bound", FACT_NUMBER },
	{ "global_attn_every_n_layers", FACT_COUNT },
	{ "global_head_dim", FACT_COUNT },
	{ "hc_count", FACT_COUNT },
	{ "hc_eps", FACT_NUMBER },
	{ "hc_lowrank", FACT_COUNT },
	{ "hc_mult", FACT_COUNT },
	{ "hc_sinkhorn_iters", FACT_COUNT },
	{ "head_dim", FACT_COUNT },
	{ "heads_per_ngram", FACT_COUNT },
	{ "hidden_act", FACT_TEXT },
	{ "hidden_activation", FACT_TEXT },
	{ "hidden_size_per_layer_input", FACT_COUNT },
	{ "high_freq_factor", FACT_NUMBER },
	{ "hybrid_layer_pattern", FACT_LIST },
	{ "hybrid_override_pattern", FACT_TEXT },
	{ "index_head_dim", FACT_COUNT },
	{ "index_block_size", FACT_COUNT },
	{ "index_kpool", FACT_COUNT },
	{ "index_local_blocks", FACT_COUNT },
	{ "index_n_heads", FACT_COUNT },
	{ "index_skip_topk_offset", FACT_COUNT },
	{ "index_topk", FACT_COUNT },
	{ "index_topk_blocks", FACT_COUNT },
	{ "index_topk_freq", FACT_COUNT },
	{ "index_topk_pattern", FACT_LIST_OR_TEXT },
	{ "indexer_budget", FACT_COUNT },
	{ "indexer_compress_ratio", FACT_COUNT },
	{ "indexer_head_dim", FACT_COUNT },
	{ "indexer_kv_heads", FACT_COUNT },
	{ "indexer_n_heads", FACT_COUNT },
	{ "indexer_types", FACT_LIST },
	{ "kda_layers", FACT_LIST },
	{ "kda_lower_bound", FACT_NUMBER },
	{ "kda_safe_gate", FACT_FLAG },
	{ "key_multiplier", FACT_NUMBER },
	{ "kv_lora_rank", FACT_COUNT },
	{ "layer_group_size", FACT_COUNT },
	{ "layer_norm_eps", FACT_NUMBER },
	{ "layer_norm_epsilon", FACT_NUMBER },
	{ "layer_rope_theta", FACT_LIST },
	{ "layer_types", FACT_LIST },
	{ "layernorm_epsilon", FACT_NUMBER },
	{ "layers_block_type", FACT_LIST },
	{ "linear_attn_config", FACT_OBJECT },
	{ "linear_conv_kernel_dim", FACT_COUNT },
	{ "linear_head_dim", FACT_COUNT },
	{ "linear_key_head_dim", FACT_COUNT },
	{ "linear_lower_bound", FACT_NUMBER },
	{ "linear_num_heads", FACT_COUNT },
	{ "linear_num_key_heads", FACT_COUNT },
	{ "linear_num_value_heads", FACT_COUNT },
	{ "linear_value_head_dim", FACT_COUNT },
	{ "llama_4_scaling_beta", FACT_NUMBER },
	{ "lm_head_multiplier", FACT_NUMBER },
	{ "local_layer_ids", FACT_LIST },
	{ "log_scaling_alpha", FACT_NUMBER },
	{ "log_scaling_n_floor", FACT_COUNT },
	{ "logit_scale", FACT_NUMBER },
	{ "logits_mup_width_multiplier", FACT_NUMBER },
	{ "logits_scaling", FACT_NUMBER },
	{ "long_factor", FACT_LIST },
	{ "low_freq_factor", FACT_NUMBER },
	{ "mamba_conv_bias", FACT_FLAG },
	{ "mamba_d_conv", FACT_COUNT },
	{ "mamba_d_ssm", FACT_COUNT },
	{ "mamba_d_state", FACT_COUNT },
	{ "mamba_dt_rank", FACT_COUNT_OR_TEXT },
	{ "mamba_expand", FACT_COUNT },
	{ "mamba_head_dim", FACT_COUNT },
	{ "mamba_hidden_act", FACT_TEXT },
	{ "mamba_n_groups", FACT_COUNT },
	{ "mamba_n_heads", FACT_COUNT },
	{ "mamba_norm_before_gate", FACT_FLAG },
	{ "mamba_num_heads", FACT_COUNT },
	{ "mamba_proj_bias", FACT_FLAG },
	{ "mamba_rms_norm", FACT_FLAG },
	{ "max_position_embeddings", FACT_COUNT },
	{ "max_window_layers", FACT_COUNT },
	{ "mlp_bias", FACT_FLAG },
	{ "mlp_hidden_act", FACT_TEXT },
	{ "mlp_layer_types", FACT_LIST },
	{ "mlp_multipliers", FACT_LIST },
	{ "moe_k", FACT_COUNT },
	{ "moe_renormalize", FACT_FLAG },
	{ "moe_routed_scaling_factor", FACT_NUMBER },
	{ "moe_router_logit_softcapping", FACT_NUMBER },
	{ "moe_router_scaling_factor", FACT_NUMBER },
	{ "moe_top_k", FACT_COUNT },
	{ "moe_topk", FACT_COUNT_OR_LIST },
	{ "mrope_interleaved", FACT_FLAG },
	{ "mrope_section", FACT_LIST },
	{ "mscale", FACT_NUMBER },
	{ "mscale_all_dim", FACT_NUMBER },
	{ "mup_enabled", FACT_FLAG },
	{ "n_group", FACT_COUNT },
	{ "n_groups", FACT_COUNT },
	{ "n_shared_experts", FACT_COUNT },
	{ "ngram_size", FACT_COUNT },
	{ "no_rope_layer_interval", FACT_COUNT },
	{ "no_rope_layers", FACT_LIST },
	{ "norm_eps", FACT_NUMBER },
	{ "norm_topk_prob", FACT_FLAG },
	{ "num_attention_groups", FACT_COUNT },
	{ "num_attention_heads_per_layer", FACT_LIST },
	{ "num_expert_group", FACT_COUNT },
	{ "num_experts_per_tok", FACT_COUNT },
	{ "num_experts_per_token", FACT_COUNT },
	{ "num_global_key_value_heads", FACT_COUNT },
	{ "num_hash_layers", FACT_COUNT },
	{ "num_heads", FACT_COUNT },
	{ "num_kv_shared_layers", FACT_COUNT },
	{ "num_sliding_attention_heads", FACT_COUNT },
	{ "o_groups", FACT_COUNT },
	{ "o_lora_rank", FACT_COUNT },
	{ "original_max_position_embeddings", FACT_COUNT },
	{ "output_gate_type", FACT_TEXT },
	{ "output_multiplier", FACT_NUMBER },
	{ "partial_rotary_factor", FACT_NUMBER },
	{ "partial_rotary_factors", FACT_LIST },
	{ "per_layer_config", FACT_OBJECT },
	{ "ple_conv_kernel_size", FACT_COUNT },
	{ "ple_embed_dim", FACT_COUNT },
	{ "ple_layer_ids", FACT_LIST },
	{ "position_embedding_type", FACT_TEXT },
	{ "post_norm_eps", FACT_NUMBER },
	{ "q_lora_rank", FACT_COUNT },
	{ "qk_nope_head_dim", FACT_COUNT },
	{ "qk_rope_head_dim", FACT_COUNT },
	{ "qk_scale_factor", FACT_NUMBER },
	{ "query_pre_attn_scalar", FACT_NUMBER },
	{ "rel_extent", FACT_COUNT },
	{ "residual_multiplier", FACT_NUMBER },
	{ "rms_norm_eps", FACT_NUMBER },
	{ "rope_interleave", FACT_FLAG },
	{ "rope_local_base_freq", FACT_NUMBER },
	{ "rope_parameters", FACT_OBJECT },
	{ "rope_scaling", FACT_OBJECT },
	{ "rope_theta", FACT_NUMBER_OR_LIST },
	{ "rope_type", FACT_TEXT },
	{ "rotary_dim", FACT_COUNT },
	{ "route_scale", FACT_NUMBER },
	{ "routed_scaling_factor", FACT_NUMBER },
	{ "router_scaling_factor", FACT_NUMBER },
	{ "safe_gate", FACT_FLAG },
	{ "sconv_kernel_size", FACT_COUNT },
	{ "scoring_func", FACT_TEXT },
	{ "short_conv_kernel_size", FACT_COUNT },
	{ "short_factor", FACT_LIST },
	{ "sliding_window", FACT_COUNT },
	{ "sliding_window_pattern", FACT_COUNT_OR_TEXT },
	{ "sliding_window_size", FACT_COUNT },
	{ "sparse_attention_config", FACT_OBJECT },
	{ "sparse_attention_freq", FACT_LIST },
	{ "sparse_block_size", FACT_COUNT },
	{ "sparse_disable_index_value", FACT_LIST },
	{ "sparse_index_dim", FACT_COUNT },
	{ "sparse_local_block", FACT_COUNT },
	{ "sparse_num_index_heads", FACT_COUNT },
	{ "sparse_topk_blocks", FACT_COUNT },
	{ "ssm_in_multiplier", FACT_NUMBER },
	{ "ssm_multipliers", FACT_LIST },
	{ "ssm_out_multiplier", FACT_NUMBER },
	{ "ssm_state_size", FACT_COUNT },
	{ "swa_head_dim", FACT_COUNT },
	{ "swa_kv_lora_rank", FACT_COUNT },
	{ "swa_num_attention_heads", FACT_COUNT },
	{ "swa_num_key_value_heads", FACT_COUNT },
	{ "swa_q_lora_rank", FACT_COUNT },
	{ "swa_qk_nope_head_dim", FACT_COUNT },
	{ "swa_qk_rope_head_dim", FACT_COUNT },
	{ "swa_rope_theta", FACT_NUMBER },
	{ "swa_v_head_dim", FACT_COUNT },
	{ "swiglu_alpha", FACT_NUMBER },
	{ "swiglu_limit", FACT_NUMBER },
	{ "swiglu_limits", FACT_LIST },
	{ "swiglu_limits_shared", FACT_LIST },
	{ "time_step_limit", FACT_LIST },
	{ "time_step_min", FACT_NUMBER },
	{ "top_k_experts", FACT_COUNT },
	{ "topk_group", FACT_COUNT },
	{ "topk_method", FACT_TEXT },
	{ "truncate", FACT_FLAG },
	{ "type", FACT_TEXT },
	{ "unpadded_vocab_size", FACT_COUNT },
	{ "use_bias", FACT_FLAG },
	{ "use_conv_bias", FACT_FLAG },
	{ "use_double_wide_mlp", FACT_FLAG },
	{ "use_dsa", FACT_FLAG },
	{ "use_qk_norm", FACT_FLAG },
	{ "use_rmsnorm", FACT_FLAG },
	{ "use_sliding_window", FACT_FLAG },
	{ "v_head_dim", FACT_COUNT },
	{ "vocab_size_per_layer_input", FACT_COUNT },
	{ "yarn_only_types", FACT_LIST },
};

int fact_refuse(const char *key, const json_t *value, const char *why, struct err *err)
{
	struct buf text = { 0 };

	json_put_value(&text, value);
	err_set(err, ERR_INPUT, "config.json: '%s' is %s, %s", key, text.data, why);
	buf_release(&text);
	return -1;
}

int fact_refuse_length(const char *key, size_t n, size_t n_layers, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "config.json: '%s' has %zu entr%s for %zu layer%s: give one for each layer",
		       key, n, n == 1 ? "y" : "ies", n_layers, n_layers == 1 ? "" : "s");
}

static bool is_count(const json_t *value)
{
	double number = json_number_value(value);

	return json_is_number(value) && number >= 0 && number <= MAX_COUNT &&
	       number == floor(number);
}

/* Returns what the value is not, or NULL where it is of the type. */
static const char *type_missed(enum fact_type type, const json_t *value)
{
	switch (type) {
	case FACT_NUMBER_OR_LIST:
		return json_is_array(value) ? NULL : type_missed(FACT_NUMBER, value);
	case FACT_NUMBER:
		return json_is_number(value) && isfinite((float)json_number_value(value))
			       ? NULL
			       : "not a finite number";
	case FACT_COUNT_OR_TEXT:
		if (json_is_string(value))
			return NULL;
		break;
	case FACT_COUNT_OR_LIST:
		if (json_is_array(value))
			return NULL;
		break;
	case FACT_FLAG:
		return json_is_boolean(value) ? NULL : "not true or false";
	case FACT_TEXT:
		return json_is_string(value) ? NULL : "not a string";
	case FACT_LIST_OR_TEXT:
		return json_is_array(value) || json_is_string(value) ? NULL
								     : "not a list or a string";
	case FACT_LIST:
		return json_is_array(value) ? NULL : "not a list";
	case FACT_OBJECT:
		return json_is_object(value) ? NULL : "not an object";
	case FACT_COUNT:
		break;
	}
	return is_count(value) ? NULL : "not an integer from 0 to a billion";
}

static int check_value(const char *path, const char *key, const json_t *value, struct err *err)
{
	const char *missed;
	size_t i = 0;

	while (i < sizeof types / sizeof *types && strcmp(types[i].key, key) != 0)
		i++;
	if (i == sizeof types / sizeof *types || json_is_null(value))
		return 0;
	missed = type_missed(types[i].type, value);
	return missed ? fact_refuse(path, value, missed, err) : 0;
}

/* Checks the members of an object of config.json, and of the objects in it, as
 * rope_parameters has one for each type of layer. */
static int check_members(const char *path, const json_t *object, int levels, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		struct buf inner = { 0 };
		int rc;

		buf_printf(&inner, "%s.%s", path, key);
		rc = check_value(inner.data, key, value, err);
		if (!rc && levels)
			rc = check_members(inner.data, value, levels - 1, err);
		buf_release(&inner);
		if (rc)
			return -1;
	}
	return 0;
}

int fact_check(const char *key, const json_t *value, struct err *err)
{
	if (check_value(key, key, value, err))
		return -1;
	return check_members(key, value, 1, err);
}
