/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes of a context: a row, with options as JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/words.h"
#include "lib/context.h"

#define HISTORY_LEN_MAX (1 << 20)

/* Returns the value of an option as text, which the caller frees; NULL where it is none. */
static char *option_text(const json_t *value)
{
	if (json_is_string(value))
		return xstrdup(json_string_value(value));
	if (json_is_number(value))
		return json_dumps(value, JSON_ENCODE_ANY);
	return NULL;
}

static int option_wrong(const char *key, const char *wanted, struct err *err)
{
	return err_set(err, ERR_USAGE, "option '%s' is not %s", key, wanted);
}

/* Sets an option of recipes with a history.  Returns 1 for a key that is none. */
static int history_option(struct recipe *row, const char *key, const json_t *value, struct err *err)
{
	int algo;

	if (!row->needs_history)
		return 1;
	if (!strcmp(key, "amax-history-len")) {
		json_int_t len = json_integer_value(value);

		if (len < 1 || len > HISTORY_LEN_MAX)
			return option_wrong(key, "an integer from 1 to 1048576", err);
		row->amax_history_len = (int)len;
		return 0;
	}
	if (!strcmp(key, "amax-algo")) {
		algo = words_find("max|most-recent", json_string_value(value));
		if (algo < 0)
			return option_wrong(key, "'max' or 'most-recent'", err);
		row->amax_algo = (enum amax_algo)algo;
		return 0;
	}
	if (strcmp(key, "reduce-amax") != 0)
		return 1;
	if (!json_is_boolean(value))
		return option_wrong(key, "true or false", err);
	row->reduce_amax = json_is_true(value);
	return 0;
}

/* By the order of the members of struct recipe_tuning that `places` has. */
static const char *const tuning_keys[] = { "fp8-format",   "scale-fmt", "scale-arith", "mx-scale",
					   "amax-epsilon", "margin",	NULL };
#define N_TUNING 6

/* Applies the options of numbers, as texts by tuning_keys, to the specs of all roles. */
static int tune_roles(struct recipe *row, char *const texts[N_TUNING], struct err *err)
{
	const struct recipe_tuning tuning = { texts[0], texts[1], texts[2],
					      texts[3], texts[4], texts[5] };
	struct qspec *specs[] = { &row->input, &row->weight, &row->grad };

	for (size_t i = 0; i < 3; i++) {
		struct recipe role = *row;

		role.weight = *specs[i];
		if (recipe_weight_spec(&role, &tuning, specs[i], err))
			return -1;
	}
	return 0;
}

static int option_read(struct recipe *row, const char *key, const json_t *value,
		       char *texts[N_TUNING], struct err *err)
{
	int rc = history_option(row, key, value, err);
	size_t i = 0;

	if (rc <= 0)
		return rc;
	while (tuning_keys[i] && strcmp(tuning_keys[i], key) != 0)
		i++;
	if (!tuning_keys[i])
		return words_unknown("option", key, tuning_keys, "man 3 fp8conv", err);
	texts[i] = option_text(value);
	return texts[i] ? 0 : option_wrong(key, "a word or a number", err);
}

static int options_apply(struct recipe *row, const char *options, struct err *err)
{
	char *texts[N_TUNING] = { NULL };
	const char *key;
	json_t *object, *value;
	int rc = 0;

	object = json_decode((struct json_text){ options, strlen(options) }, err);
	if (!object)
		return err_wrap(err, "the options of recipe '%s'", row->name);
	if (!json_is_object(object))
		rc = err_set(err, ERR_USAGE, "the options of recipe '%s' are not a JSON object",
			     row->name);
	json_object_foreach(object, key, value) rc =
		rc ? rc : option_read(row, key, value, texts, err);
	rc = rc ? rc : tune_roles(row, texts, err);
	for (size_t i = 0; i < N_TUNING; i++)
		free(texts[i]);
	json_decref(object);
	return rc;
}

static const struct fp8conv_recipe *recipe_known(const struct fp8conv_context *context,
						 const char *name, const char *options)
{
	for (const struct fp8conv_recipe *r = context->recipes; r; r = r->next)
		if (!strcmp(r->row.name, name) && !strcmp(r->options, options))
			return r;
	return NULL;
}

static int recipe_get(struct fp8conv_context *context, const char *name, const char *options,
		      const struct fp8conv_recipe **recipe, struct err *err)
{
	const struct recipe *row;
	struct fp8conv_recipe *made;
	struct recipe tuned;

	if (!name || !recipe)
		return err_set(err, ERR_USAGE, "%s is NULL", name ? "recipe" : "name");
	options = options ? options : "{}";
	*recipe = recipe_known(context, name, options);
	if (*recipe)
		return 0;
	row = recipe_find(name, err);
	if (!row)
		return -1;
	tuned = *row;
	if (options_apply(&tuned, options, err))
		return -1;
	made = xcalloc(1, sizeof *made);
	*made = (struct fp8conv_recipe){ tuned, xstrdup(options), context->recipes };
	*recipe = context->recipes = made;
	return 0;
}

EXPORTED int fp8conv_recipe_get(struct fp8conv_context *context, const char *name,
				const char *options, const struct fp8conv_recipe **recipe,
				struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = recipe_get(context, name, options, recipe, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}

EXPORTED int fp8conv_supports(struct fp8conv_context *context, const struct fp8conv_recipe *recipe,
			      struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = recipe ? context_supports(context->backend, &recipe->row, &err)
			    : err_set(&err, ERR_USAGE, "recipe is NULL");
		context_leave(context);
	}
	return error_out(rc, &err, error);
}
