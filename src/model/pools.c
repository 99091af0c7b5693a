/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed keys: keys of pools of tokens, which queries behind them have besides a window.  Which
 * layers have them, and the ropes of these layers and of others.
 *
 * Source: transformers 5.23, configuration_deepseek_v4.py.
 */
#include <string.h>

#include "base/mem.h"
#include "model/facts.h"
#include "model/steps.h"

#define MAX_POOL 1000000

/* The types of layers. */
static const struct pool_type {
	const char *type; /* in layer_types, compress_rates */
	json_int_t ratio; /* in compress_ratios */
	const char *key;  /* of releases, for their number in compress_rates */
	json_int_t rate;  /* tokens of a pool, where no key has them; 0: there are no pools */
	bool overlap;	  /* and an indexer chooses pools */
} pool_types[] = {
	{ "sliding_attention", 0, NULL, 0, false },
	{ "compressed_sparse_attention", 4, "compress_rate_csa", 4, true },
	{ "heavily_compressed_attention", 128, "compress_rate_hca", 128, false },
};

enum { TYPE_WINDOW, TYPE_SPARSE, TYPE_HEAVY };

static const struct pool_type *type_named(const json_t *name)
{
	for (size_t i = 0; json_is_string(name) && i < COUNT(pool_types); i++)
		if (!strcmp(pool_types[i].type, json_string_value(name)))
			return &pool_types[i];
	return NULL;
}

/* Returns the type of layer i of a model that lists none. */
static const struct pool_type *type_otherwise(size_t i)
{
	return &pool_types[i < 2 || i % 2 == 0 ? TYPE_HEAVY : TYPE_SPARSE];
}

static const struct pool_type *type_of_ratio(const json_t *ratio)
{
	for (size_t i = 0; json_is_integer(ratio) && i < COUNT(pool_types); i++)
		if (pool_types[i].ratio == json_integer_value(ratio))
			return &pool_types[i];
	return NULL;
}

/* Writes layer_types.  Lists may go on for the layers of multi-token prediction. */
static int join_types(json_t *facts, size_t n_layers, struct err *err)
{
	const json_t *listed = json_object_get(facts, "layer_types");
	const json_t *ratios = json_object_get(facts, "compress_ratios");
	const json_t *from = json_is_array(listed) ? listed : ratios;
	const char *key = from == listed ? "layer_types" : "compress_ratios";
	json_t *types = json_array();

	if (json_is_array(from) && json_array_size(from) < n_layers) {
		json_decref(types);
		return fact_refuse_length(key, json_array_size(from), n_layers, err);
	}
	for (size_t i = 0; i < n_layers; i++) {
		const json_t *value = json_array_get(from, i);
		const struct pool_type *type = !json_is_array(from) ? type_otherwise(i)
					       : from == listed	    ? type_named(value)
								    : type_of_ratio(value);

		if (!type) {
			json_decref(types);
			return fact_refuse(key, from, "of which an element is not supported", err);
		}
		json_array_append_new(types, json_string(type->type));
	}
	return json_object_set_new(facts, "layer_types", types);
}

/* Returns a new number: the part of a head that turns. */
static json_t *part_of(const json_t *facts)
{
	json_t *stated = json_object_get(facts, "partial_rotary_factor");
	double head = fact_number(facts, "head_dim", 0);
	double turning = fact_number(facts, "qk_rope_head_dim", 0);

	if (json_is_number(stated))
		return json_incref(stated);
	return json_real(turning > 0 && head > 0 ? turning / head : 0.125);
}

static void set_missing(json_t *object, const char *key, json_t *value)
{
	if (!json_object_get(object, key))
		json_object_set(object, key, value);
	json_decref(value);
}

/* Returns a new rope as transformers makes it of what config.json has for all layers. */
static json_t *make_rope(const json_t *facts, const json_t *scaling, const char *theta)
{
	json_t *rope = scaling ? json_copy((json_t *)scaling) : json_object();
	const json_t *type = json_object_get(rope, "type");

	json_object_del(rope, "main");
	json_object_del(rope, "compress");
	json_object_set(rope, "rope_theta", json_object_get(facts, theta));
	json_object_set_new(rope, "partial_rotary_factor", part_of(facts));
	set_missing(rope, "rope_type", type ? json_incref((json_t *)type) : json_string("default"));
	if (json_is_string(json_object_get(rope, "rope_type")) &&
	    !strcmp(json_string_value(json_object_get(rope, "rope_type")), "yarn"))
		set_missing(rope, "attention_factor", json_integer(1));
	return rope;
}

/* Returns a new rope of an object of config.json that has one for each type. */
static json_t *copy_rope(const json_t *stated)
{
	json_t *rope = json_copy((json_t *)stated);

	set_missing(rope, "partial_rotary_factor", json_integer(1));
	return rope;
}

/* Writes rope_parameters. */
static void join_ropes(json_t *facts)
{
	const json_t *stated = json_object_get(facts, "rope_parameters");
	const json_t *scaling =
		json_object_size(stated) ? stated : json_object_get(facts, "rope_scaling");
	const json_t *plain = json_object_get(scaling, "main");
	const json_t *compressed = json_object_get(scaling, "compress");
	bool nested = json_is_object(plain) && json_is_object(compressed);
	json_t *ropes = json_object();

	json_object_set_new(ropes, "sliding_attention",
			    nested ? copy_rope(plain) : make_rope(facts, NULL, "rope_theta"));
	json_object_set_new(ropes, "full_attention",
			    nested ? copy_rope(compressed)
				   : make_rope(facts, json_is_object(scaling) ? scaling : NULL,
					       "compress_rope_theta"));
	json_object_set_new(facts, "rope_parameters", ropes);
	json_object_del(facts, "rope_scaling");
}

int pools_join_spellings(json_t *facts, const json_t *level, struct err *err)
{
	json_int_t n = json_integer_value(json_object_get(level, "num_hidden_layers"));
	const json_t *part;

	if (!json_object_get(facts, "compress_rope_theta"))
		return 0;
	part = json_object_get(facts, "partial_rotary_factor");
	if (json_is_number(part) && !(json_number_value(part) > 0 && json_number_value(part) <= 1))
		return fact_refuse("partial_rotary_factor", part,
				   "which is not above 0 and up to 1", err);
	if (join_types(facts, n > 0 && n <= MAX_POOL ? (size_t)n : 0, err))
		return -1;
	join_ropes(facts);
	return 0;
}

/* Reads the tokens of a pool in layers of a type. */
static int read_rate(const json_t *facts, const struct pool_type *type, size_t *rate,
		     struct err *err)
{
	const json_t *rates = json_object_get(facts, "compress_rates");
	const json_t *value = json_object_get(facts, type->key);
	const char *key = type->key;

	if (!json_is_integer(value)) {
		key = "compress_rates";
		value = json_object_get(rates, type->type);
	}
	*rate = (size_t)(value ? json_integer_value(value) : type->rate);
	if (json_is_object(rates) && !value)
		return err_set(err, ERR_INPUT, "config.json: 'compress_rates' has no '%s'",
			       type->type);
	if (!value || (json_is_integer(value) && *rate >= 1 && *rate <= MAX_POOL))
		return 0;
	return fact_refuse(key, value, "which has no integer from 1 to a million", err);
}

/* Sets the number of groups of heads that LINEAR_O has rows for. */
static int configure_groups(struct model *model, const json_t *facts, struct err *err)
{
	model->o_groups = 1;
	if (!json_object_get(facts, "o_groups"))
		return 0;
	if (fact_size(facts, "o_groups", model->n_heads, &model->o_groups, err) ||
	    fact_size(facts, "o_lora_rank", MODEL_MAX_HEAD_DIM, &model->o_rank, err))
		return -1;
	if (model->n_heads % model->o_groups == 0)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: %zu heads ('num_attention_heads') are not a multiple of %zu "
		       "groups ('o_groups')",
		       model->n_heads, model->o_groups);
}

/* All layers have the window, the one that model_configure_windows() gave to some. */
int pools_configure(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *types = json_object_get(facts, "layer_types");
	size_t window = 0;

	if (configure_groups(model, facts, err))
		return -1;
	if (!json_object_get(facts, "compress_rope_theta"))
		return 0;
	if (fact_size(facts, "sliding_window", MAX_POOL, &window, err))
		return -1;
	model->latent.q_lora_rank = fact_count(facts, "q_lora_rank", 0);
	model->latent.norm_eps = (float)fact_number(facts, "rms_norm_eps", 0);
	if (!model->latent.q_lora_rank)
		return err_set(err, ERR_INPUT, "config.json: 'q_lora_rank' is not above 0");
	for (size_t i = 0; i < model->n_layers; i++) {
		const struct pool_type *type = type_named(json_array_get(types, i));
		struct layer_ref *layer = &model->layers[i];

		layer->window = window;
		layer->keys_are_values = true;
		if (!type || !type->rate)
			continue;
		if (read_rate(facts, type, &layer->pool_size, err))
			return -1;
		layer->pools_overlap = type->overlap;
		layer->keys = type->overlap ? KEYS_CHOSEN : KEYS_ALL;
	}
	return 0;
}
