/* SPDX-License-Identifier: Apache-2.0
 *
 * Which scheme the configuration says of a module: compressed-tensors may have a group for each.
 */
#include <string.h>

#include "verify/steps.h"

/* Whether a group has the module.  A target is a module's name, a pattern "re:...", or a class,
 * which has all modules that no other group names. */
static bool targets(const json_t *group, const char *module, bool by_name)
{
	const json_t *target;
	size_t i;

	json_array_foreach(json_object_get(group, "targets"), i, target)
	{
		const char *text = json_string_value(target);

		if (!text)
			continue;
		if (by_name ? config_entry_matches(text, module) : !strcmp(text, "Linear"))
			return true;
	}
	return false;
}

static const json_t *group_of(json_t *groups, const char *module)
{
	const char *name;
	json_t *group;

	for (int by_name = 1; by_name >= 0; by_name--) {
		json_object_foreach(groups, name,
				    group) if (targets(group, module, by_name)) return group;
	}
	return NULL;
}

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

struct scheme verify_scheme(const struct verify *verify, const char *module)
{
	json_t *groups = json_object_get(verify->opened.detection->config, "config_groups");
	struct scheme scheme = verify->opened.detection->scheme;
	const json_t *group;

	if (json_object_size(groups) < 2)
		return scheme;
	group = group_of(groups, module);
	take_strategy(json_object_get(group, "weights"), &scheme);
	scheme.static_input = json_is_false(
		json_object_get(json_object_get(group, "input_activations"), "dynamic"));
	return scheme;
}
