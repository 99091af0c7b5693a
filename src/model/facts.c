/* SPDX-License-Identifier: Apache-2.0 */
#include "model/facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What all architectures read. */
static const struct fact_row common[] = {
	{ "head_dim", NULL },	     { "hidden_act", "\"silu\"" },
	{ "layer_types", NULL },     { "max_position_embeddings", NULL },
	{ "mlp_layer_types", NULL }, { "rms_norm_eps", "1e-06" },
	{ "rope_parameters", NULL }, { "rope_scaling", NULL },
	{ "rope_theta", "10000.0" }, { NULL, NULL },
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
	{ "num_shared_experts", NULL },
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

	if (fact_check(key, value, err))
		return -1;
	if (!decided && row_find(common, key))
		read = decided = true;
	if (read)
		json_object_set(facts, key, value);
	if (read || ignored || (!decided && is_ignored(ignored_always, key, value, &decided)) ||
	    (!decided && is_off(value)))
		return 0;
	return fact_refuse(
		key, value,
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

const char *fact_key(const json_t *facts, const char *const *keys)
{
	while (keys[1] && !json_object_get(facts, *keys))
		keys++;
	return *keys;
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

int fact_heads(const char *place, const json_t *value, size_t *n, struct err *err)
{
	double number = json_number_value(value);

	if (!json_is_integer(value) || !(number >= 1 && number <= 65536))
		return fact_refuse(place, value, "which is not a number from 1 to 65536", err);
	*n = (size_t)number;
	return 0;
}
