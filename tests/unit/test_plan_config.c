/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of a plan, for more recipes than fp8conv has rows of: as many groups as
 * recipes, the largest first, and every module in the group of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>

#include "convert/plan.h"

#define N_RECIPES 40

/* Module i, of a recipe of its own; the last two share one. */
static struct recipe recipes_in_use[N_RECIPES];
static char names[N_RECIPES + 1][32];
static struct unit units[N_RECIPES + 1];
static struct plan_unit beside[N_RECIPES + 1];

static void plan_fill(struct plan *plan)
{
	struct err err = { 0 };
	const struct scheme scheme = { .granularity = GRANULARITY_CHANNEL };

	for (size_t i = 0; i <= N_RECIPES; i++) {
		struct recipe *recipe = &recipes_in_use[i < N_RECIPES ? i : N_RECIPES - 1];

		*recipe = *recipe_find(i ? "channelwise" : "blockwise", &err);
		snprintf(names[i], sizeof names[i], "layers.%zu.up_proj.weight", i);
		units[i] = (struct unit){ .name = names[i], .recipe = recipe };
		beside[i].spec = &recipe->weight;
	}
	*plan = (struct plan){
		.units = beside,
		.selection = { .units = units, .n_units = N_RECIPES + 1 },
		.format = format_select("compressed-tensors", ENGINE_ANY, &scheme, "x", &err),
	};
	assert_non_null(plan->format);
}

/* The module that the group with this number names alone: layers.<it>. */
static unsigned module_of(const json_t *groups, size_t group)
{
	char name[32];
	json_t *targets;
	unsigned module = UINT_MAX;

	snprintf(name, sizeof name, "group_%zu", group);
	targets = json_object_get(json_object_get(groups, name), "targets");
	assert_int_equal(json_array_size(targets), 1);
	sscanf(json_string_value(json_array_get(targets, 0)), "%*[^0-9]%u", &module);
	assert_in_range(module, 0, N_RECIPES - 2);
	return module;
}

static void every_recipe_has_a_group(void **state)
{
	bool found[N_RECIPES] = { false };
	struct plan plan;
	struct err err = { 0 };
	json_t *config, *groups, *targets;

	(void)state;
	plan_fill(&plan);
	assert_int_equal(plan_configuration(&plan, &err), 0);
	config = json_loadb(plan.files.config.data, plan.files.config.len, 0, NULL);
	groups = json_object_get(json_object_get(config, "quantization_config"), "config_groups");
	assert_int_equal(json_object_size(groups), N_RECIPES);
	targets = json_object_get(json_object_get(groups, "group_0"), "targets");
	assert_string_equal(json_string_value(json_array_get(targets, 0)), "Linear");
	for (size_t group = 1; group < N_RECIPES; group++) {
		unsigned module = module_of(groups, group);

		assert_false(found[module]);
		found[module] = true;
	}
	json_decref(config);
	buf_release(&plan.files.config);
	buf_release(&plan.files.hf_quant_config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_recipe_has_a_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
