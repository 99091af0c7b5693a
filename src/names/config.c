/* SPDX-License-Identifier: Apache-2.0 */
#include "names/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define MAX_SPELLINGS 6

#define SPELLINGS(size, ...) [size] = { __VA_ARGS__ },

static const char *const spellings[N_CONFIG_SIZES][MAX_SPELLINGS] = { CONFIG_SIZES(SPELLINGS) };

/* Objects in which multimodal models keep the facts of their language model. */
static const char *const nests[] = { "text_config",    "llm_config", "language_config",
				     "thinker_config", "vlm_config", "global_config",
				     "decoder_config", "decoder" };

static const json_t *nested(const json_t *object)
{
	for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
		const json_t *inner = json_object_get(object, nests[i]);

		if (json_is_object(inner))
			return inner;
	}
	return NULL;
}

/* Refuses the value of a key of config.json.  Returns -1. */
static int refuse(const char *key, const json_t *value, const char *expected, struct err *err)
{
	struct buf text = { 0 };

	json_put_value(&text, value);
	err_set(err, ERR_INPUT, "config.json: '%s' is %s, not %s: correct it or remove the key",
		key, text.data, expected);
	buf_release(&text);
	return -1;
}

/* Sets *text to a copy of a string; a missing one and null leave it as it is. */
static int read_string(const char *key, const json_t *value, char **text, struct err *err)
{
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_string(value))
		return refuse(key, value, "a string", err);
	free(*text);
	*text = xstrdup(json_string_value(value));
	return 0;
}

/* The same for a flag. */
static int read_flag(const char *key, const json_t *value, bool *flag, struct err *err)
{
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_boolean(value))
		return refuse(key, value, "true or false", err);
	*flag = json_is_true(value);
	return 0;
}

static bool is_size(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Reads a size.  Models whose layers differ have a list of sizes, or null for a layer that has
 * none: such a size is no number for the whole model.  0 is that of a part that the model lacks. */
static int read_size(struct model_config *config, enum config_size which, const char *key,
		     const json_t *value, struct err *err)
{
	const json_t *element;
	size_t i;

	if (!is_size(value) && !json_is_array(value))
		return refuse(key, value, "a positive integer", err);
	json_array_foreach(
		value, i,
		element) if (!is_size(element) &&
			     !json_is_null(element)) return refuse(key, value,
								   "a list of positive integers",
								   err);
	config->size[which] = (uint64_t)json_integer_value(value);
	config->bad[which] = !config->size[which];
	return 0;
}

/* Reads the values of a level under the first key that is there and not null: some files have null
 * as head_dim or n_inner. */
static int read_sizes(struct model_config *config, const json_t *object, struct err *err)
{
	for (int i = 0; i < N_CONFIG_SIZES; i++) {
		for (size_t k = 0; k < MAX_SPELLINGS && spellings[i][k]; k++) {
			const json_t *value = json_object_get(object, spellings[i][k]);

			if (!value || json_is_null(value))
				continue;
			if (read_size(config, (enum config_size)i, spellings[i][k], value, err))
				return -1;
			break;
		}
	}
	return 0;
}

/* Reads the sizes of a level, and those that MPT and DBRX keep in an object of the attention.  All
 * heads share the one of multi_query, but in Falcon's newer layers. */
static int read_level_sizes(struct model_config *config, const json_t *object, struct err *err)
{
	const json_t *attention = json_object_get(object, "attn_config");

	if (read_sizes(config, object, err) ||
	    (json_is_object(attention) && read_sizes(config, attention, err)))
		return -1;
	if (json_is_true(json_object_get(object, "multi_query")) &&
	    !json_is_true(json_object_get(object, "new_decoder_architecture")))
		config->size[CONFIG_KV_HEADS] = 1;
	return 0;
}

/* transformers writes dtype, and wrote torch_dtype before; diffusers writes _class_name. */
static int read_strings(struct model_config *config, const json_t *root, struct err *err)
{
	const json_t *architectures = json_object_get(root, "architectures");

	if (architectures && !json_is_null(architectures) && !json_is_array(architectures))
		return refuse("architectures", architectures, "a list of strings", err);
	if (read_string("model_type", json_object_get(root, "model_type"), &config->model_type,
			err) ||
	    read_string("_class_name", json_object_get(root, "_class_name"), &config->architecture,
			err) ||
	    read_string("architectures", json_array_get(architectures, 0), &config->architecture,
			err) ||
	    read_string("torch_dtype", json_object_get(root, "torch_dtype"), &config->dtype, err))
		return -1;
	return read_string("dtype", json_object_get(root, "dtype"), &config->dtype, err);
}

static bool is_nest(const char *key)
{
	for (size_t i = 0; i < sizeof nests / sizeof *nests; i++)
		if (!strcmp(nests[i], key))
			return true;
	return false;
}

/* Whether an object describes a model: "attn_config" of MPT does not. */
static bool is_model(const json_t *object)
{
	return json_object_get(object, "model_type") || json_object_get(object, "hidden_size") ||
	       json_object_get(object, "num_hidden_layers") || json_object_get(object, "depth");
}

/* Whether an encoder is of the kind of its decoder, as in T5Gemma: the first words of their types
 * are equal. */
static bool is_own_encoder(const json_t *object, const json_t *encoder)
{
	const json_t *decoder = nested(object);
	const char *a = json_string_value(json_object_get(encoder, "model_type"));
	const char *b =
		json_string_value(json_object_get(decoder ? decoder : object, "model_type"));
	size_t n = a ? strcspn(a, "_") : 0;

	return n && b && strcspn(b, "_") == n && !strncmp(a, b, n);
}

/* Whether a level describes a model beside the language model. */
static bool has_part(const json_t *object)
{
	static const char suffix[] = "_config";
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		size_t n = strlen(key), n_suffix = sizeof suffix - 1;
		bool encoder = !strcmp(key, "encoder") || !strcmp(key, "encoder_config");

		if (!encoder && (n <= n_suffix || strcmp(key + n - n_suffix, suffix) != 0))
			continue;
		if (is_model(value) && !is_nest(key) && !(encoder && is_own_encoder(object, value)))
			return true;
	}
	return false;
}

/* Inner levels are read later and override outer ones: they belong to the language model. */
static int read_level(struct model_config *config, const json_t *object, struct err *err)
{
	const json_t *quantization = json_object_get(object, "quantization_config");
	const json_t *tie = json_object_get(object, "tie_word_embeddings");
	const json_t *seq2seq = json_object_get(object, "is_encoder_decoder");
	char **type = &config->model_types[config->n_model_types];
	bool is_seq2seq = false, is_tied = false;

	if (read_string("model_type", json_object_get(object, "model_type"), type, err))
		return -1;
	config->n_model_types += *type != NULL;
	if (read_level_sizes(config, object, err))
		return -1;
	config->has_parts |= has_part(object);
	if (read_flag("is_encoder_decoder", seq2seq, &is_seq2seq, err) ||
	    read_flag("tie_word_embeddings", tie, &is_tied, err))
		return -1;
	/* transformers asks the outer level, vLLM the inner one */
	config->tie_word_embeddings |= is_tied;
	config->is_encoder_decoder |= is_seq2seq;
	config->tie_is_stated |= json_is_boolean(tie);
	if (!config->has_quantization && quantization && !json_is_null(quantization)) {
		const json_t *method = json_object_get(quantization, "quant_method");

		config->has_quantization = true;
		return read_string("quant_method", method, &config->quant_method, err);
	}
	return 0;
}

int model_config_read(struct model_config *config, const struct buf *text, struct err *err)
{
	const json_t *level;
	json_t *root;
	int rc;

	*config = (struct model_config){ 0 };
	if (text->len == 0)
		return 0;
	root = json_decode_python((struct json_text){ text->data, text->len }, err);
	if (!root)
		return err_wrap(err, "config.json");
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(err, ERR_INPUT, "config.json is not an object");
	}
	rc = read_strings(config, root, err);
	level = root;
	for (int depth = 0; !rc && level && depth < MODEL_CONFIG_LEVELS; depth++) {
		rc = read_level(config, level, err);
		level = nested(level);
	}
	json_decref(root);
	if (!config->size[CONFIG_KV_HEADS] && !config->bad[CONFIG_KV_HEADS])
		config->size[CONFIG_KV_HEADS] = config->size[CONFIG_HEADS];
	if (rc)
		model_config_release(config);
	return rc;
}

int model_config_need(const struct model_config *config, enum config_size which, struct err *err)
{
	if (config->size[which])
		return 0;
	if (config->bad[which])
		return err_set(err, ERR_INPUT, "'%s' in config.json is not a positive integer",
			       spellings[which][0]);
	return err_set(err, ERR_INPUT, "config.json has no '%s'", spellings[which][0]);
}

const json_t *model_config_level(const json_t *root)
{
	const json_t *level = root, *inner = root;

	for (int depth = 0; inner && depth < MODEL_CONFIG_LEVELS; depth++) {
		level = inner;
		inner = nested(level);
	}
	return level;
}

uint64_t model_config_expert_width(const struct model_config *config)
{
	if (config->size[CONFIG_MOE_INTERMEDIATE_SIZE] || config->bad[CONFIG_MOE_INTERMEDIATE_SIZE])
		return config->size[CONFIG_MOE_INTERMEDIATE_SIZE];
	return config->size[CONFIG_INTERMEDIATE_SIZE];
}

void model_config_release(struct model_config *config)
{
	free(config->model_type);
	for (size_t i = 0; i < config->n_model_types; i++)
		free(config->model_types[i]);
	free(config->architecture);
	free(config->dtype);
	free(config->quant_method);
	*config = (struct model_config){ 0 };
}
