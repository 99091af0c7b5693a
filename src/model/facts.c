/* SPDX-License-Identifier: Apache-2.0 */
#include "model/facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

#define MAX_COUNT  1000000000
#define MAX_QUOTED 60 /* bytes of a value in a message */

enum fact_type {
	FACT_NUMBER,
	FACT_COUNT,
	FACT_COUNT_OR_TEXT,
	FACT_FLAG,
	FACT_TEXT,
	FACT_LIST,
	FACT_OBJECT
};

static const struct {
	const char *key;
	enum fact_type type;
} types[] = {
	{ "attention_bias", FACT_FLAG },
	{ "attention_chunk_size", FACT_COUNT },
	{ "attention_k_eq_v", FACT_FLAG },
	{ "attention_multiplier", FACT_NUMBER },
	{ "attention_out_bias", FACT_FLAG },
	{ "attn_layer_indices", FACT_LIST },
	{ "attn_layer_offset", FACT_COUNT },
	{ "attn_layer_period", FACT_COUNT },
	{ "attn_logit_softcapping", FACT_NUMBER },
	{ "attn_scale", FACT_NUMBER },
	{ "attn_temperature_tuning", FACT_FLAG },
	{ "conv_L_cache", FACT_COUNT },
	{ "conv_bias", FACT_FLAG },
	{ "conv_kernel", FACT_COUNT },
	{ "embedding_multiplier", FACT_NUMBER },
	{ "enable_moe_block", FACT_FLAG },
	{ "final_logit_softcapping", FACT_NUMBER },
	{ "floor_scale", FACT_COUNT },
	{ "full_attention_interval", FACT_COUNT },
	{ "full_attn_idxs", FACT_LIST },
	{ "full_attn_layers", FACT_LIST },
	{ "global_head_dim", FACT_COUNT },
	{ "head_dim", FACT_COUNT },
	{ "hidden_act", FACT_TEXT },
	{ "hidden_activation", FACT_TEXT },
	{ "hidden_size_per_layer_input", FACT_COUNT },
	{ "hybrid_override_pattern", FACT_TEXT },
	{ "index_head_dim", FACT_COUNT },
	{ "index_n_heads", FACT_COUNT },
	{ "index_topk", FACT_COUNT },
	{ "kda_layers", FACT_LIST },
	{ "kda_lower_bound", FACT_NUMBER },
	{ "kda_safe_gate", FACT_FLAG },
	{ "kv_lora_rank", FACT_COUNT },
	{ "layer_group_size", FACT_COUNT },
	{ "layer_norm_eps", FACT_NUMBER },
	{ "layer_norm_epsilon", FACT_NUMBER },
	{ "layer_types", FACT_LIST },
	{ "layers_block_type", FACT_LIST },
	{ "linear_attn_config", FACT_OBJECT },
	{ "linear_conv_kernel_dim", FACT_COUNT },
	{ "linear_head_dim", FACT_COUNT },
	{ "linear_key_head_dim", FACT_COUNT },
	{ "linear_num_heads", FACT_COUNT },
	{ "linear_num_key_heads", FACT_COUNT },
	{ "linear_num_value_heads", FACT_COUNT },
	{ "linear_value_head_dim", FACT_COUNT },
	{ "logit_scale", FACT_NUMBER },
	{ "logits_scaling", FACT_NUMBER },
	{ "mamba_conv_bias", FACT_FLAG },
	{ "mamba_d_conv", FACT_COUNT },
	{ "mamba_d_state", FACT_COUNT },
	{ "mamba_expand", FACT_COUNT },
	{ "mamba_head_dim", FACT_COUNT },
	{ "mamba_hidden_act", FACT_TEXT },
	{ "mamba_n_groups", FACT_COUNT },
	{ "mamba_n_heads", FACT_COUNT },
	{ "mamba_num_heads", FACT_COUNT },
	{ "mamba_proj_bias", FACT_FLAG },
	{ "max_position_embeddings", FACT_COUNT },
	{ "max_window_layers", FACT_COUNT },
	{ "mlp_bias", FACT_FLAG },
	{ "mlp_hidden_act", FACT_TEXT },
	{ "moe_k", FACT_COUNT },
	{ "moe_renormalize", FACT_FLAG },
	{ "n_group", FACT_COUNT },
	{ "n_groups", FACT_COUNT },
	{ "no_rope_layer_interval", FACT_COUNT },
	{ "no_rope_layers", FACT_LIST },
	{ "norm_eps", FACT_NUMBER },
	{ "norm_topk_prob", FACT_FLAG },
	{ "num_expert_group", FACT_COUNT },
	{ "num_experts_per_tok", FACT_COUNT },
	{ "num_experts_per_token", FACT_COUNT },
	{ "num_global_key_value_heads", FACT_COUNT },
	{ "num_heads", FACT_COUNT },
	{ "num_kv_shared_layers", FACT_COUNT },
	{ "original_max_position_embeddings", FACT_COUNT },
	{ "partial_rotary_factor", FACT_NUMBER },
	{ "per_layer_config", FACT_OBJECT },
	{ "position_embedding_type", FACT_TEXT },
	{ "q_lora_rank", FACT_COUNT },
	{ "qk_nope_head_dim", FACT_COUNT },
	{ "qk_rope_head_dim", FACT_COUNT },
	{ "query_pre_attn_scalar", FACT_NUMBER },
	{ "residual_multiplier", FACT_NUMBER },
	{ "rms_norm_eps", FACT_NUMBER },
	{ "rope_interleave", FACT_FLAG },
	{ "rope_local_base_freq", FACT_NUMBER },
	{ "rope_parameters", FACT_OBJECT },
	{ "rope_scaling", FACT_OBJECT },
	{ "rope_theta", FACT_NUMBER },
	{ "rotary_dim", FACT_COUNT },
	{ "routed_scaling_factor", FACT_NUMBER },
	{ "short_conv_kernel_size", FACT_COUNT },
	{ "sliding_window", FACT_COUNT },
	{ "sliding_window_pattern", FACT_COUNT_OR_TEXT },
	{ "ssm_state_size", FACT_COUNT },
	{ "swiglu_alpha", FACT_NUMBER },
	{ "swiglu_limit", FACT_NUMBER },
	{ "time_step_limit", FACT_LIST },
	{ "time_step_min", FACT_NUMBER },
	{ "top_k_experts", FACT_COUNT },
	{ "topk_group", FACT_COUNT },
	{ "topk_method", FACT_TEXT },
	{ "use_bias", FACT_FLAG },
	{ "use_conv_bias", FACT_FLAG },
	{ "use_double_wide_mlp", FACT_FLAG },
	{ "use_qk_norm", FACT_FLAG },
	{ "use_sliding_window", FACT_FLAG },
	{ "v_head_dim", FACT_COUNT },
	{ "vocab_size_per_layer_input", FACT_COUNT },
};

/* What all architectures read. */
static const struct fact_row common[] = {
	{ "head_dim", NULL },
	{ "hidden_act", "\"silu\"" },
	{ "layer_types", NULL },
	{ "max_position_embeddings", NULL },
	{ "rms_norm_eps", "1e-06" },
	{ "rope_parameters", NULL },
	{ "rope_scaling", NULL },
	{ "rope_theta", "10000.0" },
	{ NULL, NULL },
};

/* What no architecture needs: model_config_read() reads it; the tensors show it; it is of training,
 * of generation, of the tokenizer, or of the file; or its value is what a forward pass does. */
static const struct ignored_row ignored_always[] = {
	{ "hidden_size", NULL },
	{ "intermediate_size", NULL },
	{ "moe_intermediate_size", NULL },
	{ "n_routed_experts", NULL },
	{ "num_attention_heads", NULL },
	{ "num_experts", NULL },
	{ "num_hidden_layers", NULL },
	{ "num_key_value_heads", NULL },
	{ "num_local_experts", NULL },
	{ "quantization_config", NULL },
	{ "tie_word_embeddings", NULL },
	{ "vocab_size", NULL },

	{ "decoder_sparse_step", NULL },
	{ "first_k_dense_replace", NULL },
	{ "mlp_only_layers", NULL },
	{ "moe_layer_freq", NULL },
	{ "n_shared_experts", NULL },
	{ "num_nextn_predict_layers", NULL },
	{ "shared_expert_intermediate_size", NULL },

	{ "attention_dropout", NULL },
	{ "attn_pdrop", NULL },
	{ "aux_loss_alpha", NULL },
	{ "chunk_size_feed_forward", NULL },
	{ "classifier_dropout", NULL },
	{ "embd_pdrop", NULL },
	{ "ep_size", NULL },
	{ "gradient_checkpointing", NULL },
	{ "hidden_dropout", NULL },
	{ "initializer_range", NULL },
	{ "output_attentions", NULL },
	{ "output_hidden_states", NULL },
	{ "output_router_logits", NULL },
	{ "pretraining_tp", NULL },
	{ "problem_type", NULL },
	{ "resid_pdrop", NULL },
	{ "return_dict", NULL },
	{ "router_aux_loss_coef", NULL },
	{ "router_jitter_noise", NULL },
	{ "seq_aux", NULL },
	{ "use_cache", NULL },

	{ "bad_words_ids", NULL },
	{ "begin_suppress_tokens", NULL },
	{ "bos_token_id", NULL },
	{ "cache_implementation", NULL },
	{ "decoder_start_token_id", NULL },
	{ "diversity_penalty", NULL },
	{ "do_sample", NULL },
	{ "early_stopping", NULL },
	{ "eos_token_id", NULL },
	{ "forced_bos_token_id", NULL },
	{ "forced_eos_token_id", NULL },
	{ "length_penalty", NULL },
	{ "max_length", NULL },
	{ "min_length", NULL },
	{ "no_repeat_ngram_size", NULL },
	{ "num_beam_groups", NULL },
	{ "num_beams", NULL },
	{ "num_return_sequences", NULL },
	{ "pad_token_id", NULL },
	{ "prefix", NULL },
	{ "repetition_penalty", NULL },
	{ "return_dict_in_generate", NULL },
	{ "sep_token_id", NULL },
	{ "suppress_tokens", NULL },
	{ "temperature", NULL },
	{ "tokenizer_class", NULL },
	{ "top_k", NULL },
	{ "top_p", NULL },
	{ "typical_p", NULL },
	{ "unk_token_id", NULL },

	{ "_attn_implementation", NULL },
	{ "_attn_implementation_autoset", NULL },
	{ "_commit_hash", NULL },
	{ "_flash_attn_2_enabled", NULL },
	{ "_name_or_path", NULL },
	{ "architectures", NULL },
	{ "attn_implementation", NULL },
	{ "auto_map", NULL },
	{ "compression_config", NULL },
	{ "dtype", NULL },
	{ "finetuning_task", NULL },
	{ "id2label", NULL },
	{ "label2id", NULL },
	{ "model_max_length", NULL },
	{ "model_type", NULL },
	{ "name_or_path", NULL },
	{ "num_labels", NULL },
	{ "task_specific_params", NULL },
	{ "torch_dtype", NULL },
	{ "torchscript", NULL },
	{ "transformers.js_config", NULL },
	{ "transformers_version", NULL },
	{ "unsloth_fixed", NULL },
	{ "unsloth_version", NULL },

	{ "is_causal", "true" },
	{ "is_decoder", NULL },
	{ "partial_rotary_factor", "1.0" },
	{ NULL, NULL },
};

static const struct fact_row *row_find(const struct fact_row *rows, const char *key)
{
	for (; rows && rows->key; rows++)
		if (!strcmp(rows->key, key))
			return rows;
	return NULL;
}

static json_t *decode(const char *text)
{
	return json_loads(text, JSON_DECODE_ANY, NULL);
}

static bool equals(const json_t *value, const char *text)
{
	json_t *wanted = decode(text);
	bool same = json_is_number(wanted)
			    ? json_is_number(value) &&
				      json_number_value(value) == json_number_value(wanted)
			    : json_equal(value, wanted);

	json_decref(wanted);
	return same;
}

static bool is_ignored(const struct ignored_row *rows, const char *key, const json_t *value,
		       bool *decided)
{
	bool before = *decided, ignored = false;

	for (; !before && rows && rows->key; rows++) {
		if (strcmp(rows->key, key) != 0)
			continue;
		*decided = true;
		ignored |= !rows->only || json_is_null(value) || equals(value, rows->only);
	}
	return ignored;
}

/* Whether the value switches nothing on: null, false, 0, or an empty text, list or object. */
static bool is_off(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_TRUE:
		return false;
	case JSON_STRING:
		return json_string_length(value) == 0;
	case JSON_ARRAY:
		return json_array_size(value) == 0;
	case JSON_OBJECT:
		return json_object_size(value) == 0;
	default:
		return json_number_value(value) == 0;
	}
}

/* Adds a value as JSON; of a long one the beginning. */
static void quote(struct buf *text, const json_t *value)
{
	char *whole = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	int length = whole ? (int)strlen(whole) : 0;

	if (length > MAX_QUOTED)
		buf_printf(text, "%.*s...", MAX_QUOTED, whole);
	else
		buf_puts(text, whole ? whole : "?");
	free(whole);
}

static int refuse(const char *key, const json_t *value, const char *why, struct err *err)
{
	struct buf text = { 0 };

	quote(&text, value);
	err_set(err, ERR_INPUT, "config.json: '%s' is %s, %s", key, text.data, why);
	buf_release(&text);
	return -1;
}

static int check_type(const char *key, const json_t *value, struct err *err)
{
	double number = json_number_value(value);
	size_t i = 0;

	while (i < sizeof types / sizeof *types && strcmp(types[i].key, key) != 0)
		i++;
	if (i == sizeof types / sizeof *types || json_is_null(value))
		return 0;
	switch (types[i].type) {
	case FACT_NUMBER:
		return json_is_number(value) && isfinite(number)
			       ? 0
			       : refuse(key, value, "not a number", err);
	case FACT_COUNT:
	case FACT_COUNT_OR_TEXT:
		if (types[i].type == FACT_COUNT_OR_TEXT && json_is_string(value))
			return 0;
		return json_is_number(value) && number >= 0 && number <= MAX_COUNT &&
				       number == floor(number)
			       ? 0
			       : refuse(key, value, "not an integer from 0 to a billion", err);
	case FACT_FLAG:
		return json_is_boolean(value) ? 0 : refuse(key, value, "not true or false", err);
	case FACT_TEXT:
		return json_is_string(value) ? 0 : refuse(key, value, "not a string", err);
	case FACT_LIST:
		return json_is_array(value) ? 0 : refuse(key, value, "not a list", err);
	default:
		return json_is_object(value) ? 0 : refuse(key, value, "not an object", err);
	}
}

/* Adds the values of the rows whose keys are missing.  rope_scaling is another name of
 * rope_parameters. */
static void complete(json_t *facts, const struct fact_row *rows)
{
	bool scaled = json_is_object(json_object_get(facts, "rope_scaling"));

	for (; rows && rows->key; rows++)
		if (rows->otherwise && !json_object_get(facts, rows->key) &&
		    !(scaled && !strcmp(rows->key, "rope_parameters")))
			json_object_set_new(facts, rows->key, decode(rows->otherwise));
}

/* Adds one member of config.json to the facts, if the architecture reads it. */
static int read_member(json_t *facts, const char *key, json_t *value, const struct arch_facts *arch,
		       struct err *err)
{
	bool decided = row_find(arch->keys, key) || row_find(arch->shared, key);
	bool read = decided, ignored = is_ignored(arch->ignored, key, value, &decided) ||
				       is_ignored(arch->shared_ignored, key, value, &decided);

	if (check_type(key, value, err))
		return -1;
	if (!decided && row_find(common, key))
		read = decided = true;
	if (read)
		json_object_set(facts, key, value);
	if (read || ignored || (!decided && is_ignored(ignored_always, key, value, &decided)) ||
	    (!decided && is_off(value)))
		return 0;
	return refuse(key, value,
		      "which is not supported for this architecture; remove the key if it changes "
		      "no number",
		      err);
}

json_t *facts_read(const json_t *level, const struct arch_facts *arch, struct err *err)
{
	json_t *facts = json_object(), *value;
	const char *key;

	json_object_foreach((json_t *)level, key, value)
	{
		if (read_member(facts, key, value, arch, err)) {
			json_decref(facts);
			return NULL;
		}
	}
	complete(facts, arch->keys);
	complete(facts, arch->shared);
	complete(facts, common);
	return facts;
}

double fact_number(const json_t *facts, const char *key, double otherwise)
{
	const json_t *value = json_object_get(facts, key);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

size_t fact_count(const json_t *facts, const char *key, size_t otherwise)
{
	return (size_t)fact_number(facts, key, (double)otherwise);
}

bool fact_flag(const json_t *facts, const char *key)
{
	return json_is_true(json_object_get(facts, key));
}

int fact_size(const json_t *facts, const char *key, size_t max, size_t *size, struct err *err)
{
	double value = fact_number(facts, key, 0);

	if (!(value >= 1 && value <= (double)max) || value != floor(value))
		return err_set(err, ERR_INPUT, "config.json: '%s' is not a number from 1 to %zu",
			       key, max);
	*size = (size_t)value;
	return 0;
}
