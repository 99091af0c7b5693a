/* SPDX-License-Identifier: Apache-2.0
 *
 * Which scheme the configuration says of a module: compressed-tensors and Quark may have a group
 * for each, ModelOpt an algorithm.
 */
#include <string.h>

#include "format/read_config.h"
#include "format/skip_match.h"
#include "verify/steps.h"

/* Sets the granularity and tile of a known strategy. */
static void take_strategy(const json_t *weights, struct scheme *scheme)
{
	static const struct {
		const char *strategy;
		enum granularity granularity;
		struct tile tile;
	} strategies[] = {
		{ "tensor", GRANULARITY_TENSOR, { WHOLE, WHOLE } },
		{ "channel", GRANULARITY_CHANNEL, { 1, WHOLE } },
		{ "block", GRANULARITY_BLOCK, { 128, 128 } },
		{ "group", GRANULARITY_MX, { 1, 32 } },
	};
	const char *strategy = json_string_value(json_object_get(weights, "strategy"));
	const json_t *block = json_object_get(weights, "block_structure");

	for (size_t i = 0; strategy && i < sizeof strategies / sizeof *strategies; i++) {
		if (strcmp(strategies[i].strategy, strategy) != 0)
			continue;
		scheme->granularity = strategies[i].granularity;
		scheme->tile = strategies[i].tile;
		if (scheme->granularity == GRANULARITY_BLOCK && json_array_size(block) == 2) {
			scheme->tile.rows = (size_t)json_integer_value(json_array_get(block, 0));
			scheme->tile.cols = (size_t)json_integer_value(json_array_get(block, 1));
		}
	}
}

/* The scheme of a member of ModelOpt's "quantized_layers" or of a group of Quark. */
static struct scheme read_scheme(const struct verify *verify, const json_t *text)
{
	struct declaration said = { 0 };

	verify->lists.format->read(text, &said);
	return said.declared ? said.scheme : verify->opened.detection->scheme;
}

struct scheme verify_scheme(const struct verify *verify, const char *module)
{
	struct scheme scheme = verify->opened.detection->scheme;
	const struct verify_group *group;
	const struct verify_lists *lists = &verify->lists;
	const json_t *inputs;
	const char *name;

	if (lists->layers && lists->format) {
		name = skip_match_lists(lists->layers, module);
		return read_scheme(verify, name ? json_object_get(lists->layer_list, name) : NULL);
	}
	if (lists->n_groups < 2)
		return scheme;
	group = lists_group(verify, module);
	if (group && lists->format && !lists->chosen)
		return read_scheme(verify, group->group);
	inputs = group ? json_object_get(group->group, "input_activations") : NULL;
	if (group)
		take_strategy(json_object_get(group->group, "weights"), &scheme);
	scheme.static_input = json_is_false(json_object_get(inputs, "dynamic"));
	return scheme;
}
