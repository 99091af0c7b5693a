/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define MAX_SPELLINGS 5

/* Keys of each size.  Messages use the first; of several keys in a file the first counts. */
static const char *const spellings[N_CONFIG_SIZES][MAX_SPELLINGS] = {
	[CONFIG_HIDDEN_SIZE] = { "hidden_size", "n_embd", "d_model", "dim" },
	[CONFIG_INTERMEDIATE_SIZE] = { "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner",
				       "d_ff" },
	[CONFIG_MOE_INTERMEDIATE_SIZE] = { "moe_intermediate_size", "expert_intermediate_size" },
	[CONFIG_EXPERTS] = { "num_experts", "num_local_experts", "n_routed_experts",
			     "moe_num_experts" },
	[CONFIG_LAYERS] = { "num_hidden_layers", "n_layer", "n_layers", "num_layers" },
	[CONFIG_HEADS] = { "num_attention_heads", "n_head", "n_heads", "num_heads" },
	[CONFIG_KV_HEADS] = { "num_key_value_heads", "num_kv_heads", "n_head_kv" },
	[CONFIG_HEAD_DIM] = { "head_dim" },
	[CONFIG_V_HEAD_DIM] = { "v_head_dim" },
	[CONFIG_VOCAB_SIZE] = { "vocab_size" },
};

/* Objects in which multimodal models keep the facts of their language model. */
static const char *const nests[] = { "text_config", "llm_config", "language_config",
				     "thinker_config" };

static const json_t *nested(const json_t *object)
{
	for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
		const json_t *inner = json_object_get(object, nests[i]);

		if (json_is_object(inner))
			return inner;
	}
	return NULL;
}

/* Returns the value of the first key that is present and not null: some files have null as head_dim
 * or n_inner. */
static const json_t *find(const json_t *object, const char *const *keys, size_t n_keys)
{
	for (size_t i = 0; i < n_keys && keys[i]; i++) {
		const json_t *value = json_object_get(object, keys[i]);

		if (value && !json_is_null(value))
			return value;
	}
	return NULL;
}

static char *string_of(const json_t *value)
{
	return json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
}

static void read_strings(struct model_config *config, const json_t *root)
{
	static const char *const dtype_keys[] = { "dtype", "torch_dtype" };

	config->model_type = string_of(json_object_get(root, "model_type"));
	config->architecture = string_of(json_array_get(json_object_get(root, "architectures"), 0));
	config->dtype = string_of(find(root, dtype_keys, 2));
}

/* Inner levels are read later and override outer ones: they belong to the language model. */
static void read_level(struct model_config *config, const json_t *object)
{
	const json_t *quantization = json_object_get(object, "quantization_config");
	const json_t *value = json_object_get(object, "model_type");

	if (json_is_string(value))
		config->model_types[config->n_model_types++] = string_of(value);
	for (int i = 0; i < N_CONFIG_SIZES; i++) {
		value = find(object, spellings[i], MAX_SPELLINGS);
		if (!value)
			continue;
		config->bad[i] = !json_is_integer(value) || json_integer_value(value) <= 0;
		config->size[i] = config->bad[i] ? 0 : (uint64_t)json_integer_value(value);
	}
	value = json_object_get(object, "tie_word_embeddings");
	if (json_is_boolean(value)) {
		config->tie_word_embeddings = json_is_true(value);
		config->tie_is_stated = true;
	}
	if (!config->has_quantization && quantization && !json_is_null(quantization)) {
		config->has_quantization = true;
		config->quant_method = string_of(json_object_get(quantization, "quant_method"));
	}
}

int model_config_read(struct model_config *config, const struct buf *text, struct err *err)
{
	const json_t *level;
	json_t *root;

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
	read_strings(config, root);
	level = root;
	for (int depth = 0; level && depth < MODEL_CONFIG_LEVELS; depth++) {
		read_level(config, level);
		level = nested(level);
	}
	json_decref(root);
	return 0;
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
