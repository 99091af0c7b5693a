/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixer of each layer, from config.json.
 */
#include <string.h>

#include "model/facts.h"
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
	{ "indexed_attention", MIXER_ATTENTION },
	{ "chunked_attention", MIXER_ATTENTION },
	{ "minimax_m3_sparse", MIXER_ATTENTION },
	{ "compressed_sparse_attention", MIXER_ATTENTION },
	{ "heavily_compressed_attention", MIXER_ATTENTION },
	{ "linear_attention", MIXER_DELTA },
	{ "linear_attention", MIXER_MAMBA },
	{ "mamba", MIXER_MAMBA },
	{ "linear_attention", MIXER_MAMBA1 },
	{ "mamba", MIXER_MAMBA1 },
	{ "conv", MIXER_CONV },
	{ "mlp", MIXER_NONE },
	{ "moe", MIXER_NONE },
};

/* May layer i have this type, with this mixer? */
static bool has_type(const struct model *model, size_t i, const char *type, enum mixer mixer)
{
	const char *indexed = model->indexer.layer_type;

	if ((indexed && !strcmp(type, indexed)) != (model->layers[i].keys != KEYS_ALL))
		return false;
	if (!strcmp(type, "indexed_attention") || !strcmp(type, "minimax_m3_sparse"))
		return model->layers[i].keys != KEYS_ALL;
	if (strstr(type, "compressed_"))
		return model->layers[i].pool_size > 0;
	if (!strcmp(type, "chunked_attention"))
		return model->arch->positions.chunked;
	switch (mixer) {
	case MIXER_DELTA:
		return model->delta.n_heads > 0;
	case MIXER_MAMBA:
		return model->arch->mamba;
	case MIXER_MAMBA1:
		return model->mamba1.n_channels > 0;
	case MIXER_CONV:
		return model->conv_width > 0;
	case MIXER_NONE:
		return model->arch->one_step;
	default:
		return true;
	}
}

static int read_type(struct model *model, size_t layer, const json_t *type, struct err *err)
{
	const char *name = json_is_string(type) ? json_string_value(type) : "null";

	for (size_t i = 0; i < COUNT(types); i++) {
		if (strcmp(types[i].type, name) != 0 ||
		    !has_type(model, layer, name, types[i].mixer))
			continue;
		model->layers[layer].mixer = types[i].mixer;
		return 0;
	}
	return err_set(err, ERR_INPUT,
		       "config.json: 'layer_types' has '%s', which is not supported in a model of "
		       "%s%s",
		       name, model->arch->name, model->advice);
}

/* Without rotations, attention does not know positions. */
static int read_positions(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *value = json_object_get(facts, "position_embedding_type");
	const char *type = json_is_string(value) ? json_string_value(value) : "nope";

	if (model->arch->positions.rotating != ROTATING_NONE && (!value || !strcmp(type, "rope")))
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

/* SmolLM3 and Llama 4: a list of 0 (attention does not know positions) and 1, or every n-th
 * layer. */
static int read_no_rope(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *list = json_object_get(facts, "no_rope_layers");
	size_t interval = fact_count(facts, "no_rope_layer_interval", 0);

	if (!json_object_get(facts, "no_rope_layer_interval"))
		return 0;
	if (!interval)
		return err_set(err, ERR_INPUT,
			       "config.json: 'no_rope_layer_interval' is not above 0");
	if (json_array_size(list) && json_array_size(list) != model->n_layers)
		return fact_refuse_length("no_rope_layers", json_array_size(list), model->n_layers,
					  err);
	for (size_t i = 0; i < model->n_layers; i++) {
		const json_t *value = json_array_get(list, i);

		if (value && !json_is_integer(value))
			return err_set(
				err, ERR_INPUT,
				"config.json: 'no_rope_layers' has an element that is not an "
				"integer");
		if (value ? !json_integer_value(value) : (i + 1) % interval == 0)
			model->layers[i].rope = NULL;
	}
	return 0;
}

/* Llama 4: by layer_types, or in layers with positions, attention is within chunks. */
static int read_chunks(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *listed = json_object_get(facts, "layer_types");
	size_t size = fact_count(facts, "attention_chunk_size", 0);

	for (size_t i = 0; model->arch->positions.chunked && i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];
		const char *type = json_string_value(json_array_get(listed, i));
		bool chunked = type ? !strcmp(type, "chunked_attention") : layer->rope != NULL;

		if (chunked && !size)
			return err_set(err, ERR_INPUT,
				       "config.json: 'attention_chunk_size' is not above 0");
		layer->chunk = chunked ? size : 0;
	}
	return 0;
}

/* Llama 4: queries of layers without positions grow with their position. */
static int read_query_scale(struct model *model, const json_t *facts, struct err *err)
{
	size_t step = fact_count(facts, "floor_scale", 0);

	if (!fact_flag(facts, "attn_temperature_tuning"))
		return 0;
	if (!step || !json_is_number(json_object_get(facts, "attn_scale")))
		return err_set(
			err, ERR_INPUT,
			"config.json: 'floor_scale' is not above 0, or 'attn_scale' is not a "
			"number");
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		if (layer->rope)
			continue;
		layer->query_scale = (float)fact_number(facts, "attn_scale", 0);
		layer->query_floor = step;
		layer->query_shift = 1;
	}
	return 0;
}

/* Returns the list of the kinds of all layers; NULL: there is none. */
static const json_t *listed_types(const json_t *facts)
{
	const json_t *listed = json_object_get(facts, "layer_types");

	return json_is_array(listed) ? listed : json_object_get(facts, "layers_block_type");
}

/* Returns the kinds of all layers of Nemotron-H as letters, or NULL. */
static const char *lettered_types(const json_t *facts)
{
	return json_string_value(json_object_get(facts, "hybrid_override_pattern"));
}

size_t model_count_layers(const struct arch *arch, const json_t *facts)
{
	size_t n = json_array_size(listed_types(facts));

	if (!arch->one_step)
		return 0;
	return n || !lettered_types(facts) ? n : strlen(lettered_types(facts));
}

/* The kinds of all layers as letters, where no list states them. */
static int read_letters(struct model *model, const json_t *facts, struct err *err)
{
	const char *letters = lettered_types(facts);

	if (json_is_array(listed_types(facts)))
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

/* LFM2: every layer has attention, or a list names the layers that have it. */
static int read_conv(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *list = json_object_get(facts, "full_attn_idxs"), *value;
	size_t i;

	if (!json_object_get(facts, "conv_L_cache"))
		return 0;
	if (fact_size(facts, "conv_L_cache", MAX_SIZE, &model->conv_width, err))
		return -1;
	for (i = 0; json_is_array(list) && i < model->n_layers; i++)
		model->layers[i].mixer = MIXER_CONV;
	json_array_foreach(list, i, value)
	{
		json_int_t layer = json_is_integer(value) ? json_integer_value(value) : -1;

		if (layer < 0 || layer >= (json_int_t)model->n_layers)
			return err_set(err, ERR_INPUT,
				       "config.json: 'full_attn_idxs' names a layer that is none "
				       "of %zu",
				       model->n_layers);
		model->layers[layer].mixer = MIXER_ATTENTION;
	}
	return 0;
}

/* Without layer_types, every full_attention_interval-th layer has attention. */
int model_find_mixers(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *listed = listed_types(facts);
	size_t interval = 0;

	if (read_positions(model, facts, err) || read_no_rope(model, facts, err) ||
	    read_chunks(model, facts, err) || read_query_scale(model, facts, err) ||
	    read_conv(model, facts, err) ||
	    (model->arch->mamba && mamba_configure(model, facts, err)) ||
	    (json_object_get(facts, "mamba_dt_rank") && mamba1_configure(model, facts, err)))
		return -1;
	if (json_object_get(facts, "linear_num_value_heads") &&
	    (fact_size(facts, "full_attention_interval", MAX_SIZE, &interval, err) ||
	     delta_configure(model, facts, err)))
		return -1;
	if (json_object_get(facts, "layer_group_size")
		    ? ling_configure(model, facts, err)
		    : json_object_get(facts, "linear_num_heads") &&
			      kda_configure(model, facts, err))
		return -1;
	if (json_is_array(listed) && json_array_size(listed) != model->n_layers)
		return fact_refuse_length("layer_types", json_array_size(listed), model->n_layers,
					  err);
	if (model->arch->one_step && read_letters(model, facts, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++) {
		const json_t *type = json_array_get(listed, i);
		enum mixer *mixer = &model->layers[i].mixer;

		if (interval)
			*mixer = (i + 1) % interval ? MIXER_DELTA : MIXER_ATTENTION;
		if (type && read_type(model, i, type, err))
			return -1;
		model->layers[i].has_mlp = !model->arch->one_step || *mixer == MIXER_NONE;
	}
	return 0;
}
