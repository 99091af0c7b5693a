/* SPDX-License-Identifier: Apache-2.0
 *
 * The heads of each layer's attention, where layers differ, by config.json: by a list (Laguna), in
 * layers with a window or without one (Gemma 4, whose last layers may use keys and
 * values of layers before them), or by a per_layer_config.
 *
 * Source: transformers 5.23, configuration_gemma4.py, which turns global_head_dim and
 * num_global_key_value_heads into a per_layer_config, and saves only that; configuration_laguna.py.
 */
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

/* Reads a size that config.json states for one layer. */
static int read_size(const char *layer, const char *key, const json_t *value, size_t *size,
		     struct err *err)
{
	double number = json_number_value(value);

	if (!json_is_integer(value) || !(number >= 1 && number <= MODEL_MAX_HEAD_DIM))
		return err_set(err, ERR_INPUT,
			       "config.json: 'per_layer_config' has a '%s' for layer %s that is "
			       "not a number from 1 to %d",
			       key, layer, MODEL_MAX_HEAD_DIM);
	*size = (size_t)number;
	return 0;
}

/* Reads what config.json states for one layer. */
static int read_layer(struct layer_ref *layer, const char *number, const json_t *object,
		      struct err *err)
{
	json_t *value;
	const char *key;

	if (!json_is_object(object))
		return err_set(err, ERR_INPUT,
			       "config.json: 'per_layer_config' has no object for layer %s",
			       number);
	json_object_foreach((json_t *)object, key, value)
	{
		int rc;

		if (!strcmp(key, "head_dim"))
			rc = read_size(number, key, value, &layer->head_dim, err);
		else if (!strcmp(key, "num_key_value_heads"))
			rc = read_size(number, key, value, &layer->n_kv_heads, err);
		else if (!strcmp(key, "num_attention_heads"))
			rc = read_size(number, key, value, &layer->n_heads, err);
		else
			rc = err_set(err, ERR_INPUT,
				     "config.json: 'per_layer_config' has the key '%s' for layer "
				     "%s, which is not supported (supported: head_dim, "
				     "num_attention_heads, num_key_value_heads)",
				     key, number);
		if (rc)
			return -1;
		if (!strcmp(key, "head_dim"))
			layer->value_dim = layer->head_dim;
	}
	return 0;
}

static int read_layers(struct model *model, const json_t *layers, struct err *err)
{
	json_t *object;
	const char *key;

	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].n_heads = model->n_heads; /* whatever other keys say */
	json_object_foreach((json_t *)layers, key, object)
	{
		char *end;
		unsigned long i;

		errno = 0;
		i = strtoul(key, &end, 10);
		if (errno || *end || end == key || strchr(key, '-') || i >= model->n_layers)
			return err_set(err, ERR_INPUT,
				       "config.json: 'per_layer_config' has the layer '%s', which "
				       "is none of %zu",
				       key, model->n_layers);
		if (read_layer(&model->layers[i], key, object, err))
			return -1;
	}
	return 0;
}

/* The keys of files from the hub: of all layers without a window. */
static int read_global(struct model *model, const json_t *facts, struct err *err)
{
	bool shared = fact_flag(facts, "attention_k_eq_v");
	size_t n_kv_heads = fact_count(facts, "num_global_key_value_heads", 0), head_dim;

	if (fact_size(facts, "global_head_dim", MODEL_MAX_HEAD_DIM, &head_dim, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		if (layer->window)
			continue;
		layer->head_dim = layer->value_dim = head_dim;
		if (shared && n_kv_heads)
			layer->n_kv_heads = n_kv_heads;
	}
	return 0;
}

/* A list with the number of heads of queries of each layer. */
static int read_list(struct model *model, const json_t *facts, struct err *err)
{
	static const char key[] = "num_attention_heads_per_layer";
	const json_t *list = json_object_get(facts, key);

	if (!json_is_array(list))
		return 0;
	if (json_array_size(list) != model->n_layers)
		return fact_refuse_length(key, json_array_size(list), model->n_layers, err);
	for (size_t i = 0; i < model->n_layers; i++) {
		char place[60];

		snprintf(place, sizeof place, "%s[%zu]", key, i);
		if (fact_heads(place, json_array_get(list, i), &model->layers[i].n_heads, err))
			return -1;
	}
	return 0;
}

/* Layers with a window have one rope, and the others have one, whose size is that of a head. */
static int check_layers(const struct model *model, struct err *err)
{
	const struct layer_ref *first[2] = { NULL };

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];
		const struct layer_ref **same = &first[layer->window > 0];

		if (!*same)
			*same = layer;
		if ((*same)->head_dim != layer->head_dim ||
		    (*same)->n_kv_heads != layer->n_kv_heads)
			return err_set(
				err, ERR_INPUT,
				"config.json: 'per_layer_config' gives layer %zu other "
				"heads than layer %zu, which has the same type ('layer_types')",
				i, (size_t)(*same - model->layers));
		if (layer->n_heads % layer->n_kv_heads)
			return err_set(
				err, ERR_INPUT,
				"config.json: %zu heads are not a multiple of %zu key and value "
				"heads ('num_key_value_heads') of layer %zu",
				layer->n_heads, layer->n_kv_heads, i);
	}
	return 0;
}

int model_configure_heads(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *layers = json_object_get(facts, "per_layer_config");

	if (model->latent.kv_lora_rank)
		return latent_configure_layers(model, facts, err);
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		layer->n_heads = model->n_heads;
		layer->n_kv_heads = model->n_kv_heads;
		layer->head_dim = model->head_dim;
		layer->value_dim = model->value_dim;
		layer->keys_are_values = !layer->window && fact_flag(facts, "attention_k_eq_v");
	}
	if (model_configure_window_heads(model, facts, err) || read_list(model, facts, err))
		return -1;
	if (layers ? read_layers(model, layers, err)
		   : json_object_get(facts, "global_head_dim") && read_global(model, facts, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++)
		if (model->layers[i].n_kv_heads > model->max_kv_heads)
			model->max_kv_heads = model->layers[i].n_kv_heads;
	return check_layers(model, err);
}

/* Returns the last layer before `end` with a window as this one has; NULL: there is none. */
static struct layer_ref *last_alike(struct model *model, const struct layer_ref *layer, size_t end)
{
	for (size_t i = end; i > 0; i--)
		if ((model->layers[i - 1].window > 0) == (layer->window > 0))
			return &model->layers[i - 1];
	return NULL;
}

int model_configure_sharing(struct model *model, const json_t *facts, struct err *err)
{
	size_t n = fact_count(facts, "num_kv_shared_layers", 0), end;

	model->stream.layer_inputs = model->streams.n * model->hidden;
	model->stream.ngrams =
		model->stream.layer_inputs + model->n_layers * model->layer_input_dim;
	model->stream.width = model->stream.ngrams + model->ngrams.n * model->ngrams.dim;
	end = n < model->n_layers ? model->n_layers - n : 0;
	for (size_t i = end; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];
		struct layer_ref *source = last_alike(model, layer, end);

		if (!source)
			return err_set(err, ERR_INPUT,
				       "config.json: 'num_kv_shared_layers' is %zu of %zu layers, "
				       "but layer %zu has no layer of its type ('layer_types') "
				       "before them",
				       n, model->n_layers, i);
		layer->kv_source = source;
		if (source->kv_place)
			continue;
		source->kv_place = model->stream.width;
		model->stream.width += source->n_kv_heads * (source->head_dim + source->value_dim);
	}
	return 0;
}

/* A key on the level of the language model, or in an object there. */
static const struct window_key {
	const char *object; /* NULL: none */
	const char *key;
	size_t member; /* of struct layer_ref, its offset */
} window_keys[] = {
	{ NULL, "num_sliding_attention_heads", offsetof(struct layer_ref, n_heads) },
	{ "attention_other_setting", "num_attention_heads", offsetof(struct layer_ref, n_heads) },
	{ "attention_other_setting", "num_attention_groups",
	  offsetof(struct layer_ref, n_kv_heads) },
	{ "attention_other_setting", "head_dim", offsetof(struct layer_ref, head_dim) },
	{ "attention_other_setting", "true_head_dim", offsetof(struct layer_ref, head_dim) },
	{ NULL, "swa_num_attention_heads", offsetof(struct layer_ref, n_heads) },
	{ NULL, "swa_num_key_value_heads", offsetof(struct layer_ref, n_kv_heads) },
	{ NULL, "swa_head_dim", offsetof(struct layer_ref, head_dim) },
	{ NULL, "swa_v_head_dim", offsetof(struct layer_ref, value_dim) },
};

static size_t *member_of(struct layer_ref *layer, const struct window_key *row)
{
	return (size_t *)(void *)((char *)layer + row->member);
}

/* Refuses members of an object that no row reads. */
static int check_object(const char *object, const json_t *members, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)members, key, value)
	{
		const char *text = json_is_string(value) ? json_string_value(value) : "";
		bool known = !strcmp(key, "attention_type") && !strcmp(text, "sliding_attention");

		for (size_t i = 0; i < COUNT(window_keys); i++)
			known |= window_keys[i].object && !strcmp(window_keys[i].key, key);
		if (!known)
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' has a member '%s' that is not supported "
				       "for this architecture",
				       object, key);
	}
	return 0;
}

/* Reads the number of one key, if it is there.  set: the keys of the rows before that are. */
static int read_key(const struct window_key *row, const json_t *facts, struct layer_ref *heads,
		    bool *set, struct err *err)
{
	const json_t *object = row->object ? json_object_get(facts, row->object) : facts;
	const json_t *value = json_object_get(object, row->key);
	size_t *number = member_of(heads, row), before = *number;
	char place[80];

	if (row->object && check_object(row->object, object, err))
		return -1;
	if (!value || json_is_null(value))
		return 0;
	snprintf(place, sizeof place, "%s%s%s", row->object ? row->object : "",
		 row->object ? "." : "", row->key);
	if (fact_heads(place, value, number, err))
		return -1;
	if (heads->n_heads % heads->n_kv_heads)
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' is %zu, but %zu heads are not a multiple of %zu "
			       "key and value heads",
			       place, *number, heads->n_heads, heads->n_kv_heads);
	for (const struct window_key *other = window_keys; other < row; other++)
		if (set[other - window_keys] && other->member == row->member && before != *number)
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' is %zu, but '%s' is %zu: correct one of "
				       "them",
				       other->key, before, place, *number);
	set[row - window_keys] = true;
	return 0;
}

int model_configure_window_heads(struct model *model, const json_t *facts, struct err *err)
{
	size_t times = model->arch->positions.window_key_heads;
	struct layer_ref heads = { .n_heads = model->n_heads,
				   .n_kv_heads = model->n_kv_heads * (times ? times : 1),
				   .head_dim = model->head_dim,
				   .value_dim = model->value_dim };
	bool set[COUNT(window_keys)] = { false };

	for (size_t i = 0; i < COUNT(window_keys); i++)
		if (read_key(&window_keys[i], facts, &heads, set, err))
			return -1;
	if (!json_object_get(facts, "v_head_dim"))
		heads.value_dim = heads.head_dim;
	if (heads.head_dim != model->head_dim && model->arch->positions.rotating != ROTATING_NONE)
		return err_set(err, ERR_INPUT,
			       "config.json: layers with a window have heads of %zu values "
			       "('swa_head_dim'), not of 'head_dim', %zu, which is not supported",
			       heads.head_dim, model->head_dim);
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		if (!layer->window)
			continue;
		layer->n_heads = heads.n_heads;
		layer->n_kv_heads = heads.n_kv_heads;
		layer->head_dim = heads.head_dim;
		layer->value_dim = heads.value_dim;
	}
	return 0;
}
