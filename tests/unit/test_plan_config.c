/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of a plan: for more recipes than fp8conv has rows of, as many groups as
 * recipes, the largest first, and every module in the group of its own; and the names of kept
 * modules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>

#include "plan/plan.h"

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
		.source.config = { .data = (char *)"{}", .len = 2 },
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

static void files_release(struct plan *plan)
{
	buf_release(&plan->files.config);
	buf_release(&plan->files.quantization);
	buf_release(&plan->files.hf_quant_config);
	notes_release(&plan->selection.notes);
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
	files_release(&plan);
	skip_list_release(&plan.skipped);
}

/* The names of kept modules for one quantized and one kept weight, and the error. */
static int list_names(char *quantized, char *kept, struct plan *plan, struct err *err)
{
	static const uint64_t shape[] = { 128, 128 };
	const struct scheme scheme = { .granularity = GRANULARITY_CHANNEL };
	struct st_tensor tensor = {
		.name = kept, .dtype = DT_BF16, .n_dims = 2, .shape = (uint64_t *)shape
	};
	const struct tensor_ref ref = { .tensor = &tensor };
	const struct recipe *recipe = recipe_find("channelwise", err);
	struct unit two[] = { { .name = quantized, .recipe = recipe },
			      { .name = kept, .source = &ref, .skip = SKIP_MODULE } };
	struct plan_unit specs[] = { { .spec = &recipe->weight }, { 0 } };
	int rc;

	*plan = (struct plan){
		.units = specs,
		.selection = { .units = two, .n_units = 2 },
		.format = format_select("compressed-tensors", ENGINE_ANY, &scheme, "x", err),
	};
	rc = plan_configuration(plan, err);
	files_release(plan);
	return rc;
}

/* Engines make the lm_head of a tied model, which has no tensor of it. */
static void lm_head_is_named_where_no_tensor_is(void **state)
{
	struct err err = { 0 };
	struct plan plan;

	(void)state;
	assert_int_equal(list_names("a.q_proj.weight", "a.gate.weight", &plan, &err), 0);
	assert_int_equal(plan.skipped.n, 2);
	assert_string_equal(plan.skipped.names[0], "a.gate");
	assert_string_equal(plan.skipped.names[1], "lm_head");
	skip_list_release(&plan.skipped);
	assert_int_equal(list_names("a.q_proj.weight", "b.lm_head.weight", &plan, &err), 0);
	assert_int_equal(plan.skipped.n, 1);
	assert_string_equal(plan.skipped.names[0], "b.lm_head");
	skip_list_release(&plan.skipped);
	assert_int_equal(list_names("lm_head.weight", "a.gate.weight", &plan, &err), 0);
	assert_int_equal(plan.skipped.n, 1);
	assert_string_equal(plan.skipped.names[0], "a.gate");
	skip_list_release(&plan.skipped);
}

static void a_name_that_ends_a_quantized_module_is_refused(void **state)
{
	struct err err = { 0 };
	struct plan plan;

	(void)state;
	assert_int_equal(list_names("a.0.q_proj.weight", "proj.weight", &plan, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message,
			    "'proj' is kept, and its name in the list of kept modules also "
			    "matches 'a.0.q_proj', which is quantized, in some engine: keep both "
			    "with --exclude");
	skip_list_release(&plan.skipped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_recipe_has_a_group),
		cmocka_unit_test(lm_head_is_named_where_no_tensor_is),
		cmocka_unit_test(a_name_that_ends_a_quantized_module_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
