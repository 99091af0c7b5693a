/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a recipe by name, and its weight spec with what the command line changes in it.
 */
#include "recipe/recipe.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "num/scale.h"

const struct recipe *recipe_find(const char *name, struct err *err)
{
	const char **names = NULL;
	size_t n = 0;

	for (; recipes[n]; n++) {
		ARRAY_GROW(names, n);
		names[n] = recipes[n]->name;
		if (!strcmp(names[n], name)) {
			free(names);
			return recipes[n];
		}
	}
	ARRAY_GROW(names, n);
	names[n] = NULL;
	words_unknown("recipe", name, names, "fp8conv recipes", err);
	free(names);
	return NULL;
}

const struct recipe *recipe_of_scheme(enum granularity granularity, bool static_input)
{
	bool needs_history = static_input && granularity == GRANULARITY_TENSOR;

	for (size_t i = 0; recipes[i]; i++)
		if (qspec_granularity(&recipes[i]->weight) == granularity &&
		    recipes[i]->needs_history == needs_history)
			return recipes[i];
	return NULL;
}

/* Returns the index of value in words, or -1 with ERR_USAGE; list is the words for the message. */
static int word_index(const char *option, const char *value, const char *words, const char *list,
		      struct err *err)
{
	int index = words_find(words, value);

	if (index < 0)
		err_set(err, ERR_USAGE, "option '%s': unknown value '%s' (known: %s)", option,
			value, list);
	return index;
}

/* Refuses an option that applies only to recipes with FP32 scales. */
static int require_float_scales(const struct recipe *recipe, const char *option, struct err *err)
{
	if (recipe->weight.scale_type == SCALE_F32)
		return 0;
	return err_set(err, ERR_USAGE,
		       "option '%s' does not apply to recipe '%s', whose scales are E8M0 "
		       "exponents: it is for recipes with FP32 scales",
		       option, recipe->name);
}

static int tune_format(const char *text, struct qspec *spec, struct err *err)
{
	int index = word_index("--fp8-format", text, FP8_FORMAT_WORDS, "e4m3 or e5m2", err);

	if (index < 0)
		return -1;
	spec->format = (enum fp8_format)index;
	return 0;
}

static int tune_scale_fmt(const char *text, struct qspec *spec, struct err *err)
{
	int index = word_index("--scale-fmt", text, SCALE_FMT_WORDS, "ue8m0 or float", err);

	if (index < 0)
		return -1;
	spec->pow2 = index == 1;
	return 0;
}

/* Called after tune_scale_fmt(): with power-of-two scales all rules give the same scales. */
static int tune_scale_arith(const struct recipe *recipe, const char *text, struct qspec *spec,
			    struct err *err)
{
	int index = word_index("--scale-arith", text, SCALE_ARITH_WORDS, "te, deepseek or deepgemm",
			       err);

	if (index < 0)
		return -1;
	if (spec->pow2 && index != ARITH_TE)
		return err_set(err, ERR_USAGE,
			       "option '--scale-arith': '%s' does not apply to recipe '%s' with "
			       "power-of-two scales: add --scale-fmt float",
			       text, recipe->name);
	spec->arith = (enum scale_arith)index;
	return 0;
}

static int tune_mx_scale(const struct recipe *recipe, const char *text, struct qspec *spec,
			 struct err *err)
{
	int index;

	if (recipe->weight.scale_type != SCALE_E8M0)
		return err_set(err, ERR_USAGE,
			       "option '--mx-scale' does not apply to recipe '%s': it is for "
			       "recipe 'mxfp8'",
			       recipe->name);
	index = word_index("--mx-scale", text, MX_RULE_WORDS, "up, floor or even", err);
	if (index < 0)
		return -1;
	spec->mx_rule = (enum mx_rule)index;
	return 0;
}

static int tune_epsilon(const char *text, struct qspec *spec, struct err *err)
{
	char *end;
	double value;

	/* strtod() also accepts white space, hexadecimal digits, "inf" and "nan". */
	value = strtod(text, &end);
	if (end == text || *end || strspn(text, "+-.0123456789eE") != strlen(text))
		return err_set(err, ERR_USAGE, "option '--amax-epsilon': '%s' is not a number",
			       text);
	if (!(value >= 0 && value <= (double)FLT_MAX) || (value > 0 && (float)value == 0))
		return err_set(
			err, ERR_USAGE,
			"option '--amax-epsilon': '%s' is neither 0 nor between 1.4e-45 and 3.4e38",
			text);
	spec->amax_epsilon = value == 0 ? 0 : (float)value; /* "-0" too */
	return 0;
}

static int tune_margin(const char *text, struct qspec *spec, struct err *err)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || value > MARGIN_LIMIT)
		return err_set(err, ERR_USAGE,
			       "option '--margin': '%s' is not an integer from 0 to %d", text,
			       MARGIN_LIMIT);
	spec->margin = (int)value;
	return 0;
}

int recipe_weight_spec(const struct recipe *recipe, const struct recipe_tuning *tuning,
		       struct qspec *spec, struct err *err)
{
	const struct {
		const char *option;
		const char *value;
	} float_only[] = {
		{ "--scale-fmt", tuning->scale_fmt },
		{ "--scale-arith", tuning->scale_arith },
		{ "--amax-epsilon", tuning->amax_epsilon },
		{ "--margin", tuning->margin },
	};

	*spec = recipe->weight;
	for (size_t i = 0; i < sizeof float_only / sizeof *float_only; i++)
		if (float_only[i].value && require_float_scales(recipe, float_only[i].option, err))
			return -1;
	if ((tuning->fp8_format && tune_format(tuning->fp8_format, spec, err)) ||
	    (tuning->scale_fmt && tune_scale_fmt(tuning->scale_fmt, spec, err)) ||
	    (tuning->scale_arith && tune_scale_arith(recipe, tuning->scale_arith, spec, err)) ||
	    (tuning->mx_scale && tune_mx_scale(recipe, tuning->mx_scale, spec, err)) ||
	    (tuning->amax_epsilon && tune_epsilon(tuning->amax_epsilon, spec, err)) ||
	    (tuning->margin && tune_margin(tuning->margin, spec, err)))
		return -1;
	return 0;
}
