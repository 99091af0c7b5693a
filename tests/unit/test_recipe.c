/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes against fp8conv-recipes(7), and what the command line may and may not change in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "recipe/recipe.h"

static const struct recipe *find(const char *name)
{
	struct err err = { 0 };
	const struct recipe *recipe = recipe_find(name, &err);

	if (!recipe)
		fail_msg("%s", err.message);
	return recipe;
}

static void assert_tile(const struct qspec *spec, size_t rows, size_t cols)
{
	assert_int_equal(spec->tile.rows, rows);
	assert_int_equal(spec->tile.cols, cols);
}

/* Columns of the table in fp8conv-recipes(7). */
static const struct {
	const char *name;
	struct tile weight, input, grad;
	enum fp8_format grad_format;
	enum scale_type scale_type;
	bool pow2, needs_history;
} published[] = {
	{ "delayed",
	  { WHOLE, WHOLE },
	  { WHOLE, WHOLE },
	  { WHOLE, WHOLE },
	  FP8_E5M2,
	  SCALE_F32,
	  false,
	  true },
	{ "current",
	  { WHOLE, WHOLE },
	  { WHOLE, WHOLE },
	  { WHOLE, WHOLE },
	  FP8_E5M2,
	  SCALE_F32,
	  false,
	  false },
	{ "channelwise",
	  { 1, WHOLE },
	  { 1, WHOLE },
	  { 1, WHOLE },
	  FP8_E5M2,
	  SCALE_F32,
	  false,
	  false },
	{ "blockwise", { 128, 128 }, { 1, 128 }, { 1, 128 }, FP8_E4M3, SCALE_F32, true, false },
	{ "mxfp8", { 1, 32 }, { 1, 32 }, { 1, 32 }, FP8_E4M3, SCALE_E8M0, false, false },
};

/* A kind of scale, and nothing that a user would have to ask for. */
static void assert_scales(const struct qspec *spec, enum scale_type type, bool pow2)
{
	assert_int_equal(spec->scale_type, type);
	assert_int_equal(spec->pow2, pow2);
	assert_int_equal(spec->arith, ARITH_TE);
	assert_int_equal(spec->mx_rule, MX_UP);
	assert_int_equal(spec->margin, 0);
	assert_true(spec->amax_epsilon == 0);
}

static void recipes_are_as_published(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
		const struct recipe *recipe = find(published[i].name);
		const struct qspec *specs[] = { &recipe->input, &recipe->weight, &recipe->grad };

		assert_tile(&recipe->weight, published[i].weight.rows, published[i].weight.cols);
		assert_tile(&recipe->input, published[i].input.rows, published[i].input.cols);
		assert_tile(&recipe->grad, published[i].grad.rows, published[i].grad.cols);
		assert_int_equal(recipe->weight.format, FP8_E4M3);
		assert_int_equal(recipe->input.format, FP8_E4M3);
		assert_int_equal(recipe->grad.format, published[i].grad_format);
		assert_int_equal(recipe->needs_history, published[i].needs_history);
		for (int k = 0; k < 3; k++)
			assert_scales(specs[k], published[i].scale_type, published[i].pow2);
		assert_true(*recipe->summary && *recipe->origin);
	}
	assert_int_equal(find("delayed")->amax_history_len, 1024);
	assert_int_equal(find("delayed")->amax_algo, AMAX_MAX);
	assert_true(find("delayed")->reduce_amax);
}

static void recipes_are_sorted_by_name(void **state)
{
	size_t n = 0;

	(void)state;
	for (; recipes[n]; n++)
		if (n)
			assert_true(strcmp(recipes[n - 1]->name, recipes[n]->name) < 0);
	assert_int_equal(n, 5);
}

static void unknown_recipes_get_a_suggestion(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_null(recipe_find("blokwise", &err));
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "unknown recipe 'blokwise' (did you mean 'blockwise'?)");
	assert_null(recipe_find("", &err));
	assert_string_equal(err.message, "unknown recipe '' (see 'fp8conv recipes')");
}

/* What an accepted option changes, and nothing else. */
static const struct {
	const char *recipe;
	struct recipe_tuning tuning;
	enum fp8_format format;
	bool pow2;
	enum scale_arith arith;
	enum mx_rule mx_rule;
	float amax_epsilon;
	int margin;
} tunings[] = {
	{ .recipe = "blockwise", .pow2 = true },
	{ .recipe = "blockwise", { .fp8_format = "e5m2" }, .format = FP8_E5M2, .pow2 = true },
	{ .recipe = "blockwise", { .fp8_format = "e4m3" }, .pow2 = true },
	{ .recipe = "blockwise", { .scale_fmt = "ue8m0" }, .pow2 = true },
	{ .recipe = "blockwise", { .scale_fmt = "float" }, .pow2 = false },
	{ .recipe = "blockwise",
	  { .scale_fmt = "float", .scale_arith = "deepseek" },
	  .arith = ARITH_DEEPSEEK },
	{ .recipe = "blockwise",
	  { .scale_fmt = "float", .scale_arith = "deepgemm" },
	  .arith = ARITH_DEEPGEMM },
	{ .recipe = "blockwise", { .scale_arith = "te" }, .pow2 = true },
	{ .recipe = "current", { .scale_arith = "deepseek" }, .arith = ARITH_DEEPSEEK },
	{ .recipe = "channelwise", { .scale_arith = "deepgemm" }, .arith = ARITH_DEEPGEMM },
	{ .recipe = "delayed", { .scale_fmt = "ue8m0" }, .pow2 = true },
	{ .recipe = "delayed", { .margin = "2" }, .margin = 2 },
	{ .recipe = "current", { .margin = "0" } },
	{ .recipe = "current", { .margin = "32" }, .margin = 32 },
	{ .recipe = "current", { .amax_epsilon = "1e-12" }, .amax_epsilon = 1e-12F },
	{ .recipe = "current", { .amax_epsilon = "0" } },
	{ .recipe = "current", { .amax_epsilon = "0.5" }, .amax_epsilon = 0.5F },
	{ .recipe = "current", { .amax_epsilon = "1e-45" }, .amax_epsilon = 1e-45F },
	{ .recipe = "mxfp8", { .mx_scale = "up" } },
	{ .recipe = "mxfp8", { .mx_scale = "floor" }, .mx_rule = MX_FLOOR },
	{ .recipe = "mxfp8", { .mx_scale = "even" }, .mx_rule = MX_EVEN },
	{ .recipe = "mxfp8", { .fp8_format = "e5m2" }, .format = FP8_E5M2 },
};

static void options_change_what_they_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof tunings / sizeof *tunings; i++) {
		const struct recipe *recipe = find(tunings[i].recipe);
		struct err err = { 0 };
		struct qspec spec;

		if (recipe_weight_spec(recipe, &tunings[i].tuning, &spec, &err))
			fail_msg("row %zu: %s", i, err.message);
		assert_tile(&spec, recipe->weight.tile.rows, recipe->weight.tile.cols);
		assert_int_equal(spec.scale_type, recipe->weight.scale_type);
		assert_int_equal(spec.format, tunings[i].format);
		assert_int_equal(spec.pow2, tunings[i].pow2);
		assert_int_equal(spec.arith, tunings[i].arith);
		assert_int_equal(spec.mx_rule, tunings[i].mx_rule);
		assert_true(spec.amax_epsilon == tunings[i].amax_epsilon);
		assert_int_equal(spec.margin, tunings[i].margin);
	}
}

/* Each refusal names the option, and the value or the recipe. */
static const struct {
	const char *recipe;
	struct recipe_tuning tuning;
	const char *names[2];
} refusals[] = {
	{ "blockwise", { .fp8_format = "e3m4" }, { "--fp8-format", "'e3m4'" } },
	{ "blockwise", { .fp8_format = "" }, { "--fp8-format", "''" } },
	{ "blockwise", { .scale_fmt = "UE8M0" }, { "--scale-fmt", "'UE8M0'" } },
	{ "blockwise", { .scale_arith = "deepseek" }, { "--scale-arith", "--scale-fmt float" } },
	{ "blockwise", { .scale_arith = "deepgemm" }, { "--scale-arith", "'blockwise'" } },
	{ "current",
	  { .scale_fmt = "ue8m0", .scale_arith = "deepseek" },
	  { "--scale-arith", "'current'" } },
	{ "blockwise",
	  { .scale_fmt = "float", .scale_arith = "deep" },
	  { "--scale-arith", "'deep'" } },
	{ "blockwise", { .mx_scale = "floor" }, { "--mx-scale", "'blockwise'" } },
	{ "mxfp8", { .mx_scale = "down" }, { "--mx-scale", "'down'" } },
	{ "mxfp8", { .scale_fmt = "ue8m0" }, { "--scale-fmt", "'mxfp8'" } },
	{ "mxfp8", { .scale_arith = "te" }, { "--scale-arith", "'mxfp8'" } },
	{ "mxfp8", { .amax_epsilon = "0" }, { "--amax-epsilon", "'mxfp8'" } },
	{ "mxfp8", { .margin = "0" }, { "--margin", "'mxfp8'" } },
	{ "current", { .amax_epsilon = "" }, { "--amax-epsilon", "''" } },
	{ "current", { .amax_epsilon = "-1" }, { "--amax-epsilon", "'-1'" } },
	{ "current", { .amax_epsilon = "nan" }, { "--amax-epsilon", "'nan'" } },
	{ "current", { .amax_epsilon = "inf" }, { "--amax-epsilon", "'inf'" } },
	{ "current", { .amax_epsilon = "1e39" }, { "--amax-epsilon", "'1e39'" } },
	{ "current", { .amax_epsilon = "1e999" }, { "--amax-epsilon", "'1e999'" } },
	{ "current", { .amax_epsilon = "1e-60" }, { "--amax-epsilon", "'1e-60'" } },
	{ "current", { .amax_epsilon = "0x1p-3" }, { "--amax-epsilon", "'0x1p-3'" } },
	{ "current", { .amax_epsilon = " 1" }, { "--amax-epsilon", "' 1'" } },
	{ "current", { .amax_epsilon = "1 " }, { "--amax-epsilon", "'1 '" } },
	{ "current", { .amax_epsilon = "1.0.0" }, { "--amax-epsilon", "'1.0.0'" } },
	{ "current", { .margin = "" }, { "--margin", "''" } },
	{ "current", { .margin = "-1" }, { "--margin", "'-1'" } },
	{ "current", { .margin = "+1" }, { "--margin", "'+1'" } },
	{ "current", { .margin = "1.5" }, { "--margin", "'1.5'" } },
	{ "current", { .margin = "33" }, { "--margin", "'33'" } },
	{ "current", { .margin = "99999999999999999999" }, { "--margin", "'9999" } },
};

static void options_of_other_recipes_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		struct err err = { 0 };
		struct qspec spec;

		assert_int_equal(recipe_weight_spec(find(refusals[i].recipe), &refusals[i].tuning,
						    &spec, &err),
				 -1);
		assert_int_equal(err.kind, ERR_USAGE);
		for (int k = 0; k < 2; k++)
			if (!strstr(err.message, refusals[i].names[k]))
				fail_msg("row %zu: \"%s\" does not name %s", i, err.message,
					 refusals[i].names[k]);
		assert_null(strchr(err.message, '\n'));
	}
}

static void a_scheme_names_the_recipe_that_makes_it(void **state)
{
	static const struct {
		enum granularity granularity;
		const char *dynamic_input, *static_input;
	} rows[] = {
		{ GRANULARITY_TENSOR, "current", "delayed" },
		{ GRANULARITY_CHANNEL, "channelwise", "channelwise" },
		{ GRANULARITY_BLOCK, "blockwise", "blockwise" },
		{ GRANULARITY_MX, "mxfp8", "mxfp8" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_string_equal(recipe_of_scheme(rows[i].granularity, false)->name,
				    rows[i].dynamic_input);
		assert_string_equal(recipe_of_scheme(rows[i].granularity, true)->name,
				    rows[i].static_input);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scheme_names_the_recipe_that_makes_it),
		cmocka_unit_test(recipes_are_as_published),
		cmocka_unit_test(recipes_are_sorted_by_name),
		cmocka_unit_test(unknown_recipes_get_a_suggestion),
		cmocka_unit_test(options_change_what_they_name),
		cmocka_unit_test(options_of_other_recipes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
