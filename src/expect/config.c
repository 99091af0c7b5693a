/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of each layer: the values at its place in lists that are as long as the
 * model has layers ("layer_types"), in words with a letter for each ("MEM*E"), and whether lists of
 * layers ("mlp_only_layers") have its number.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sort.h"
#include "expect/steps.h"

#define MAX_DEPTH  2 /* objects in the object of the language model */
#define MAX_EXTRA  8 /* values of a list for layers of multi-token prediction */
#define MAX_VALUES 8 /* distinct values of a list, unless layers have twice as many */

/* Is the array a list of layers, in ascending order? */
static bool is_index_list(const json_t *array, uint64_t n_layers)
{
	size_t n = json_array_size(array);
	json_int_t last = -1;

	if (!n || n >= n_layers)
		return false;
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(array, i);

		if (!json_is_integer(item) || json_integer_value(item) <= last ||
		    (uint64_t)json_integer_value(item) > n_layers)
			return false;
		last = json_integer_value(item);
	}
	return true;
}

static bool index_list_has(const json_t *array, uint64_t value)
{
	size_t i, n = json_array_size(array);

	SEARCH(i, n, (uint64_t)json_integer_value(json_array_get(array, i)) < value);
	return i < n && (uint64_t)json_integer_value(json_array_get(array, i)) == value;
}

/* Has the list a value for each layer, and few different ones? */
static bool is_layer_list(const json_t *array, uint64_t n_layers)
{
	struct intern values = { 0 };
	size_t n = json_array_size(array);
	bool few = n >= n_layers && n <= n_layers + MAX_EXTRA;

	for (size_t i = 0; few && i < n; i++) {
		char *text = json_dumps(json_array_get(array, i), JSON_ENCODE_ANY | JSON_SORT_KEYS);

		intern_add(&values, text, text ? strlen(text) : 0);
		free(text);
		few = values.n <= MAX_VALUES || 2 * values.n <= n;
	}
	intern_release(&values);
	return few;
}

static void add_list(struct expect *expect, const json_t *value)
{
	if (expect->n_lists < sizeof expect->lists / sizeof *expect->lists)
		expect->lists[expect->n_lists++] = value;
}

/* May a member of that key differ from layer to layer?  "dtype": "bfloat16" is no word of
 * eight layers, and "eos_token_id": [1, 2] no list of two. */
static bool is_of_layers(const char *key, const json_t *value)
{
	if (json_is_string(value))
		return strstr(key, "pattern") || strstr(key, "layer");
	return !strstr(key, "token") && strcmp(key, "architectures") != 0;
}

static void find_lists(struct expect *expect, const json_t *object, int depth)
{
	const uint64_t n_layers = expect->config.size[CONFIG_LAYERS];
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		if (json_is_object(value) && depth < MAX_DEPTH)
			find_lists(expect, value, depth + 1);
		else if (!is_of_layers(key, value))
			continue;
		else if (json_is_string(value)
				 ? json_string_length(value) == n_layers
				 : json_is_array(value) && (is_index_list(value, n_layers) ||
							    is_layer_list(value, n_layers)))
			add_list(expect, value);
	}
}

int expect_read_config(struct expect *expect, struct err *err)
{
	const struct buf *text = &expect->checkpoint->config;

	if (model_config_read(&expect->config, text, err))
		return -1;
	expect->root = json_decode_python((struct json_text){ text->data, text->len }, err);
	if (!expect->root)
		return -1;
	expect->level = model_config_level(expect->root);
	find_lists(expect, expect->level, 0);
	return 0;
}

/* Adds what a list says of layer i.  Lists of layers count from 0 or from 1. */
static void add_said(struct buf *said, const json_t *list, uint64_t i, uint64_t n_layers)
{
	char *text;

	if (json_is_string(list)) {
		buf_putc(said, json_string_value(list)[i < n_layers ? i : n_layers - 1]);
	} else if (json_array_size(list) < n_layers) {
		buf_putc(said, index_list_has(list, i) ? 'y' : 'n');
		buf_putc(said, index_list_has(list, i + 1) ? 'y' : 'n');
	} else {
		text = json_dumps(json_array_get(list, i), JSON_ENCODE_ANY | JSON_SORT_KEYS);
		buf_puts(said, text ? text : "");
		free(text);
	}
	buf_putc(said, '\n');
}

/* Returns the number of layers at the end that use keys and values of layers before them, and may
 * lack the weights that make them. */
static uint64_t n_sharing(const struct expect *expect)
{
	json_int_t n = json_integer_value(json_object_get(expect->level, "num_kv_shared_layers"));

	return n > 0 ? (uint64_t)n : 0;
}

uint32_t expect_declared(struct expect *expect, uint64_t i)
{
	const uint64_t n_layers = expect->config.size[CONFIG_LAYERS];
	struct buf said = { 0 };
	uint32_t number;

	buf_puts(&said, i >= n_layers && n_layers ? "beyond\n" : "layer\n");
	if (i < n_layers && i + n_sharing(expect) >= n_layers)
		buf_puts(&said, "sharing\n");
	for (size_t n = 0; n < expect->n_lists && i < n_layers; n++)
		add_said(&said, expect->lists[n], i, n_layers);
	number = (uint32_t)intern_add(&expect->kinds, said.data, said.len);
	buf_release(&said);
	return number;
}
