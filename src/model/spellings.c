/* SPDX-License-Identifier: Apache-2.0
 *
 * What releases write into config.json by other keys than transformers, written as transformers
 * does: the types of layers, and a rope for each type.
 *
 * Source: transformers 5.23, configuration_step3p7.py, which reads the release's keys, and
 * configuration_mimo_v2_flash.py; the config.json of Step-3.5-Flash and of MiMo-V2-Flash.
 */
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

static const char full[] = "full_attention", sliding[] = "sliding_attention",
		  indexed[] = "indexed_attention", linear[] = "linear_attention";

static size_t count_of(const json_t *level, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(level, key));

	return value > 0 && value <= 1000000 ? (size_t)value : 0;
}

static const char *type_between(const char *pattern, size_t i, size_t n_layers)
{
	const char *again = strchr(pattern, '|') + 1, *last = strchr(again, '|');
	size_t n_first = (size_t)(again - 1 - pattern), n_last = last ? strlen(last + 1) : 0;
	size_t n_again = last ? (size_t)(last - again) : strlen(again);
	const char *letter = i < n_first ? &pattern[i] : &again[(i - n_first) % n_again];

	if (i + n_last >= n_layers)
		letter = &last[1 + i + n_last - n_layers];
	return *letter == 'F' ? full : *letter == 'S' ? sliding : *letter == 'L' ? linear : "conv";
}

/* Returns the type of layer i by the letters of an architecture: "FF|SSSF|F" are the first layers,
 * those that come again and again, and the last ones; "<SSSF" end with the last layer. */
static const char *type_of(const char *pattern, size_t i, size_t n_layers)
{
	if (*pattern == '<') {
		size_t n = strlen(pattern + 1);

		return pattern[1 + (n - 1 - (n_layers - 1 - i) % n)] == 'F' ? full : sliding;
	}
	return type_between(pattern, i, n_layers);
}

/* A list of 0 and of 1, which is a layer with a window. */
static int read_hybrid(json_t *facts, const json_t *listed, size_t n_layers, struct err *err)
{
	static const char key[] = "hybrid_layer_pattern";
	const json_t *list = json_object_get(facts, key);
	json_t *types;

	if (!json_is_array(list))
		return 0;
	if (json_array_size(list) != n_layers)
		return fact_refuse_length(key, json_array_size(list), n_layers, err);
	types = json_array();
	for (size_t i = 0; i < n_layers; i++) {
		const json_t *value = json_array_get(list, i);
		json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;

		if (number == 0 || number == 1)
			json_array_append_new(types, json_string(number ? sliding : full));
	}
	json_object_set_new(facts, "layer_types", types);
	if (json_array_size(types) < n_layers)
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' has an element that is not 0 or 1", key);
	if (json_is_array(listed) && !json_equal(listed, types))
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' and 'layer_types' differ: correct one of them",
			       key);
	return 0;
}

/* Lists may go on for the layers of multi-token prediction. */
static int read_types(json_t *facts, const json_t *level, const struct positions *positions,
		      struct err *err)
{
	json_t *listed = json_object_get(facts, "layer_types"), *types;
	size_t n_layers = count_of(level, "num_hidden_layers");
	size_t more = count_of(level, "num_nextn_predict_layers");
	bool slides = !json_is_false(json_object_get(facts, "use_sliding_window"));

	if (more && json_array_size(listed) == n_layers + more)
		while (json_array_size(listed) > n_layers)
			json_array_remove(listed, json_array_size(listed) - 1);
	if (read_hybrid(facts, listed, n_layers, err))
		return -1;
	if (!positions->layer_pattern || json_is_array(json_object_get(facts, "layer_types")))
		return 0;
	types = json_array();
	for (size_t i = 0; i < n_layers; i++)
		json_array_append_new(
			types, json_string(slides ? type_of(positions->layer_pattern, i, n_layers)
						  : full));
	return json_object_set_new(facts, "layer_types", types);
}

/* GLM-5.3: all layers with attention choose their keys, by whichever word layer_types has them. */
static void read_pooled(json_t *facts, const struct positions *positions)
{
	json_t *types, *value;
	size_t i;

	if (!json_object_get(facts, "index_kpool") && !positions->mean_index)
		return;
	types = json_copy(json_object_get(facts, "layer_types"));
	json_array_foreach(types, i, value)
	{
		if (json_is_string(value) && !strcmp(json_string_value(value), full))
			json_array_set_new(types, i, json_string(indexed));
	}
	json_object_set_new(facts, "layer_types", types);
}

/* Inkling: the words of layer_types. */
static int translate_hybrid(json_t *facts, const json_t *listed, struct err *err)
{
	json_t *types = json_array();
	const json_t *value;
	size_t i;

	json_array_foreach(listed, i, value)
	{
		const char *word = json_is_string(value) ? json_string_value(value) : "null";
		bool slides = !strcmp(word, "hybrid_sliding");

		if (slides || !strcmp(word, "hybrid")) {
			json_array_append_new(types, json_string(slides ? sliding : full));
			continue;
		}
		json_decref(types);
		return err_set(err, ERR_INPUT,
			       "config.json: 'layer_types' has '%s', which is not supported "
			       "(supported: hybrid, hybrid_sliding)",
			       word);
	}
	return json_object_set_new(facts, "layer_types", types);
}

/* Without layer_types, a list has the layers with a window. */
static int read_local_ids(json_t *facts, size_t n_layers, struct err *err)
{
	static const char key[] = "local_layer_ids";
	const json_t *list = json_object_get(facts, key), *value;
	bool listed = json_is_array(json_object_get(facts, "layer_types"));
	json_t *types = listed || !json_is_array(list) ? NULL : json_array();
	size_t i;

	for (i = 0; types && i < n_layers; i++)
		json_array_append_new(types, json_string(full));
	if (types)
		json_object_set_new(facts, "layer_types", types);
	json_array_foreach(list, i, value)
	{
		json_int_t layer = json_is_integer(value) ? json_integer_value(value) : -1;

		if (!json_is_integer(value) || (types && (layer < 0 || (size_t)layer >= n_layers)))
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' names a layer that is none of %zu", key,
				       n_layers);
		if (types)
			json_array_set_new(types, (size_t)layer, json_string(sliding));
	}
	return 0;
}

/* Inkling: the types of its layers. */
static int read_hybrid_types(json_t *facts, const json_t *level, const struct positions *positions,
			     struct err *err)
{
	const json_t *listed = json_object_get(facts, "layer_types");
	size_t n_layers = count_of(level, "num_hidden_layers");

	if (!positions->hybrid_types)
		return 0;
	if (read_local_ids(facts, n_layers, err))
		return -1;
	return json_is_array(listed) ? translate_hybrid(facts, listed, err) : 0;
}

/* dots3: use_dsa says whether layers without a window choose their keys, by whichever word of the
 * two layer_types has them.  Without it they do, but in a file with per_layer_config the words of
 * layer_types are right. */
static int read_dsa(json_t *facts, const json_t *level, struct err *err)
{
	static const char key[] = "use_dsa";
	const json_t *stated = json_object_get(level, key), *value;
	const json_t *ropes = json_object_get(level, "rope_parameters");
	bool chosen = !json_is_false(json_object_get(facts, key)), set = json_is_boolean(stated);
	json_t *types;
	size_t i, n = 0;

	if (!json_object_get(facts, key) ||
	    (!set && json_is_array(json_object_get(level, "layer_types")) &&
	     (stated || json_object_get(level, "per_layer_config"))))
		return 0;
	types = json_array();
	json_array_foreach(json_object_get(facts, "layer_types"), i, value)
	{
		const char *type = json_is_string(value) ? json_string_value(value) : "";

		n += chosen && !strcmp(type, full);
		if (!strcmp(type, chosen ? full : indexed))
			json_array_append_new(types, json_string(chosen ? indexed : full));
		else
			json_array_append(types, (json_t *)value);
	}
	json_object_set_new(facts, "layer_types", types);
	if (!n || !json_is_object(ropes) || json_object_get(ropes, indexed))
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: the rotary embedding has no object '%s' in 'rope_parameters', "
		       "but layers choose their keys unless '%s', or 'layer_types' beside "
		       "'per_layer_config', says otherwise",
		       indexed, key);
}

/* Returns the number for layers of a type: the same in all of them, where `key` has a list with a
 * number for each layer; NULL: they differ, or are none. */
static json_t *number_of(const json_t *facts, const char *key, const char *type)
{
	json_t *value = json_object_get(facts, key), *found = NULL;
	const json_t *types = json_object_get(facts, "layer_types");

	if (!json_is_array(value))
		return json_is_number(value) ? value : NULL;
	for (size_t i = 0; i < json_array_size(types); i++) {
		json_t *number = json_array_get(value, i);
		const char *of = json_string_value(json_array_get(types, i));

		if (!of || strcmp(of, type) != 0)
			continue;
		if (!json_is_number(number) || (found && !json_equal(found, number)))
			return NULL;
		found = number;
	}
	return found;
}

static bool has_type(const json_t *facts, const char *type)
{
	const json_t *types = json_object_get(facts, "layer_types"), *value;
	size_t i;

	json_array_foreach(types, i, value)
	{
		if (json_is_string(value) && !strcmp(json_string_value(value), type))
			return true;
	}
	return false;
}

/* Makes the rope of layers of one type. */
static int make_rope(const json_t *facts, const char *type, json_t *ropes, struct err *err)
{
	bool windowed = type == sliding && json_object_get(facts, "swa_rope_theta");
	const char *theta_key = windowed ? "swa_rope_theta" : "rope_theta";
	const char *part_key = json_object_get(facts, "partial_rotary_factors")
				       ? "partial_rotary_factors"
				       : "partial_rotary_factor";
	json_t *theta = number_of(facts, theta_key, type), *part = number_of(facts, part_key, type);
	json_t *parts = json_object_get(facts, part_key), *rope = json_object();
	const json_t *scaling = json_object_get(facts, "rope_scaling");

	json_object_set_new(ropes, type, rope);
	if (!theta || (json_is_array(parts) && !part))
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' has no number that is the same in all layers of "
			       "the type '%s' ('layer_types')",
			       theta ? part_key : theta_key, type);
	if (json_is_object(scaling) && type == full)
		json_object_update(rope, (json_t *)scaling);
	if (!json_object_get(rope, "rope_type"))
		json_object_set_new(rope, "rope_type", json_string("default"));
	json_object_set(rope, "rope_theta", theta);
	return part ? json_object_set(rope, "partial_rotary_factor", part) : 0;
}

/* rope_theta and partial_rotary_factors have a number for each layer; or swa_rope_theta is that of
 * layers with a window. */
static int read_ropes(json_t *facts, const json_t *level, bool sized, struct err *err)
{
	const json_t *stated = json_object_get(level, "rope_parameters");
	const char *const types[] = { full, indexed, sliding };
	json_t *ropes;

	if ((!json_object_get(facts, "swa_rope_theta") &&
	     !json_object_get(facts, "partial_rotary_factors")) ||
	    (stated && !json_is_null(stated)))
		return 0;
	if (sized && json_is_object(json_object_get(facts, "rope_scaling")))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding has 'rope_scaling', which is not "
			       "supported for this architecture: give 'rope_parameters' with an "
			       "object for each type of layers");
	ropes = json_object();
	json_object_set_new(facts, "rope_parameters", ropes);
	for (size_t i = 0; i < COUNT(types); i++)
		if (has_type(facts, types[i]) && make_rope(facts, types[i], ropes, err))
			return -1;
	if (json_object_get(facts, "yarn_only_types"))
		json_object_del(facts, "rope_scaling"); /* which is in the rope of full attention */
	return 0;
}

/* Without layer_rope_theta, the layers without a window by the architecture's pattern do not know
 * positions, whatever layer_types has. */
static void read_switches(json_t *facts, const json_t *level, const struct positions *positions)
{
	const json_t *stated = json_object_get(level, "layer_rope_theta");
	size_t n_layers = count_of(level, "num_hidden_layers");
	json_t *thetas;

	if (!positions->rope_switches || (stated && !json_is_null(stated)))
		return;
	thetas = json_array();
	for (size_t i = 0; i < n_layers; i++)
		json_array_append_new(thetas, json_integer(type_of(positions->layer_pattern, i,
								   n_layers) != full));
	json_object_set_new(facts, "layer_rope_theta", thetas);
}

int model_join_spellings(json_t *facts, const json_t *level, const struct positions *positions,
			 struct err *err)
{
	if (pools_join_spellings(facts, level, err) ||
	    read_hybrid_types(facts, level, positions, err) ||
	    read_types(facts, level, positions, err))
		return -1;
	if (read_dsa(facts, level, err))
		return -1;
	read_pooled(facts, positions);
	read_switches(facts, level, positions);
	return read_ropes(facts, level, positions->sized_rope, err);
}
