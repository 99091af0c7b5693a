/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixer of each layer, and the sizes of gated DeltaNet, from config.json.  The keys and their
 * defaults are those of transformers 5.23 (configuration_qwen3_next.py, configuration_qwen3_5.py).
 */
#include <string.h>

#include "model/mamba.h"
#include "model/steps.h"

#define MAX_SIZE 65536

static const struct {
	const char *type; /* in layer_types */
	enum mixer mixer;
} types[] = {
	{ "full_attention", MIXER_ATTENTION },
	{ "sliding_attention", MIXER_ATTENTION },
	{ "attention", MIXER_ATTENTION },
	{ "linear_attention", MIXER_DELTA },
	{ "linear_attention", MIXER_MAMBA },
	{ "mamba", MIXER_MAMBA },
	{ "mlp", MIXER_NONE },
	{ "moe", MIXER_NONE },
};

static int read_size(const json_t *config, const char *key, size_t otherwise, size_t *size,
		     struct err *err)
{
	const json_t *value = json_object_get(config, key);

	*size = otherwise;
	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 1 ||
	    json_integer_value(value) > MAX_SIZE)
		return err_set(err, ERR_INPUT, "config.json: '%s' is not a number from 1 to %d",
			       key, MAX_SIZE);
	*size = (size_t)json_integer_value(value);
	return 0;
}

static int read_delta(struct delta *delta, const json_t *config, struct err *err)
{
	const struct {
		const char *key;
		size_t *size, otherwise;
	} sizes[] = {
		{ "linear_num_key_heads", &delta->n_key_heads, 16 },
		{ "linear_num_value_heads", &delta->n_heads, 32 },
		{ "linear_key_head_dim", &delta->key_dim, 128 },
		{ "linear_value_head_dim", &delta->value_dim, 128 },
		{ "linear_conv_kernel_dim", &delta->conv_width, 4 },
	};

	for (size_t i = 0; i < COUNT(sizes); i++)
		if (read_size(config, sizes[i].key, sizes[i].otherwise, sizes[i].size, err))
			return -1;
	if (delta->n_heads % delta->n_key_heads)
		return err_set(err, ERR_INPUT,
			       "config.json: 'linear_num_value_heads' is %zu, not a multiple of "
			       "'linear_num_key_heads', %zu",
			       delta->n_heads, delta->n_key_heads);
	if (delta->key_dim > MODEL_MAX_KEY_DIM)
		return err_set(err, ERR_INPUT,
			       "config.json: 'linear_key_head_dim' %zu exceeds the limit of %d",
			       delta->key_dim, MODEL_MAX_KEY_DIM);
	return 0;
}

static bool has_mixer(const struct arch *arch, enum mixer mixer)
{
	switch (mixer) {
	case MIXER_DELTA:
		return arch->attention_interval;
	case MIXER_MAMBA:
		return arch->mamba;
	case MIXER_NONE:
		return arch->one_step;
	default:
		return true;
	}
}

static int read_type(const struct model *model, const json_t *type, enum mixer *mixer,
		     struct err *err)
{
	for (size_t i = 0; i < COUNT(types); i++) {
		if (strcmp(types[i].type, json_string_value(type)) != 0 ||
		    !has_mixer(model->arch, types[i].mixer))
			continue;
		*mixer = types[i].mixer;
		return 0;
	}
	return err_set(err, ERR_INPUT,
		       "config.json: 'layer_types' has '%s', which is not supported in a model of "
		       "%s%s",
		       json_string_value(type), model->arch->name, model->advice);
}

/* Without rotations, attention does not know positions. */
static int read_position_type(struct model *model, const json_t *config, struct err *err)
{
	const json_t *value = json_object_get(config, "position_embedding_type");
	const char *type = json_is_string(value) ? json_string_value(value) : "nope";

	if (!strcmp(type, "rope"))
		return 0;
	if (strcmp(type, "nope") != 0)
		return err_set(err, ERR_INPUT,
			       "config.json: 'position_embedding_type' is '%s', which is not "
			       "supported (supported: rope, nope)",
			       type);
	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].rope = NULL;
	return 0;
}

/* Returns the list of the kinds of all layers; NULL: there is none. */
static const json_t *listed_types(const json_t *config)
{
	const json_t *listed = json_object_get(config, "layer_types");

	return json_is_array(listed) ? listed : json_object_get(config, "layers_block_type");
}

/* Returns the kinds of all layers of Nemotron-H as letters, or NULL. */
static const char *lettered_types(const json_t *config)
{
	return json_string_value(json_object_get(config, "hybrid_override_pattern"));
}

size_t model_count_layers(const struct arch *arch, const json_t *config)
{
	size_t n = json_array_size(listed_types(config));

	if (!arch->one_step)
		return 0;
	return n || !lettered_types(config) ? n : strlen(lettered_types(config));
}

/* The kinds of all layers as letters, where no list states them. */
static int read_letters(struct model *model, const json_t *config, struct err *err)
{
	const char *letters = lettered_types(config);

	if (json_is_array(listed_types(config)))
		return 0;
	for (size_t i = 0; letters && i < model->n_layers; i++) {
		const char *kind = strchr("*ME-", letters[i]);

		if (!kind)
			return err_set(err, ERR_INPUT,
				       "config.json: 'hybrid_override_pattern' has the unknown "
				       "letter '%c'",
				       letters[i]);
		model->layers[i].mixer = *kind == '*'	? MIXER_ATTENTION
					 : *kind == 'M' ? MIXER_MAMBA
							: MIXER_NONE;
	}
	return 0;
}

int model_find_mixers(struct model *model, const json_t *config, struct err *err)
{
	const json_t *listed = listed_types(config);
	size_t interval = model->arch->attention_interval;

	if (model->arch->rope_by_type && read_position_type(model, config, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++)
		if (model->arch->no_rope) {
			model->layers[i].rope = NULL;
			model->layers[i].window = 0;
		}
	if (model->arch->mamba && mamba_configure(model, config, err))
		return -1;
	if (interval && (read_size(config, "full_attention_interval", interval, &interval, err) ||
			 read_delta(&model->delta, config, err)))
		return -1;
	if (model->arch->one_step && read_letters(model, config, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++) {
		const json_t *type = json_array_get(listed, i);
		enum mixer *mixer = &model->layers[i].mixer;

		if (interval)
			*mixer = (i + 1) % interval ? MIXER_DELTA : MIXER_ATTENTION;
		if (json_is_string(type) && read_type(model, type, mixer, err))
			return -1;
		model->layers[i].has_mlp = !model->arch->one_step || *mixer == MIXER_NONE;
	}
	return 0;
}
