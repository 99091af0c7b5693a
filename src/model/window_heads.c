/* SPDX-License-Identifier: Apache-2.0
 *
 * The heads of layers with a window, in models where these have others than the rest, by
 * config.json.
 *
 * Source: transformers 5.23, configuration_step3p7.py, modular_mimo_v2_flash.py; the config.json of
 * Step-3.5-Flash and of MiMo-V2-Flash.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

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
	if (heads.head_dim != model->head_dim)
		return err_set(err, ERR_INPUT,
			       "config.json: layers with a window have heads of %zu values, not of "
			       "'head_dim', %zu, which is not supported",
			       heads.head_dim, model->head_dim);
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		if (!layer->window)
			continue;
		layer->n_heads = heads.n_heads;
		layer->n_kv_heads = heads.n_kv_heads;
		layer->value_dim = heads.value_dim;
	}
	return 0;
}
