/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups that `quantize --keep` leaves in high precision, from a table of divergences.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "base/mem.h"
#include "convert/steps.h"
#include "select/keep_list.h"

int quantize_check_keep(const struct keep_params *keep, struct err *err)
{
	if (!keep->path && (keep->budget > 0 || keep->max_kld > 0))
		return err_set(err, ERR_USAGE, "option '%s' requires '--keep'",
			       keep->budget > 0 ? "--budget" : "--max-kld");
	if (keep->budget > 0 && keep->max_kld > 0)
		return err_set(err, ERR_USAGE,
			       "options '--budget' and '--max-kld' cannot be combined");
	if (keep->path && !(keep->budget > 0) && !(keep->max_kld > 0))
		return err_set(err, ERR_USAGE,
			       "option '--keep' requires '--budget' or '--max-kld': how much may "
			       "be kept, for example --budget 10%%");
	return 0;
}

/* The names of the table's recipes: "blockwise, mxfp8".  The caller frees them. */
static char *recipe_names(const struct kld_table *table)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < table->n_recipes; i++)
		buf_printf(&text, "%s%s", i ? ", " : "", table->recipes[i].name);
	return text.data ? text.data : xstrdup("no recipe");
}

/* Finds the plan's recipe in the table: with the same numbers. */
static int find_recipe(const struct kld_table *table, const struct plan *plan, const char *path,
		       size_t *recipe, struct err *err)
{
	json_t *scales;
	bool same;

	*recipe = kld_table_find(table, plan->recipe->name);
	if (*recipe == SIZE_MAX) {
		char *names = recipe_names(table);

		err_set(err, ERR_USAGE, "'%s' does not measure recipe '%s', but %s", path,
			plan->recipe->name, names);
		free(names);
		return -1;
	}
	scales = quantize_spec_json(&plan->spec);
	same = json_equal(json_object_get(table->recipes[*recipe].options, "scales"), scales);
	json_decref(scales);
	if (same)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' measures recipe '%s' with other scales: repeat the options of "
		       "'fp8conv sensitivity'",
		       path, plan->recipe->name);
}

int quantize_sensitive(struct plan *plan, const struct quantize_params *params, struct err *err)
{
	const struct keep_params *keep = &params->keep;
	struct kld_table table;
	size_t recipe;
	int rc;

	if (kld_table_read(&table, params->convert.io, AT_FDCWD, keep->path, false, err))
		return -1;
	rc = find_recipe(&table, plan, keep->path, &recipe, err);
	rc = rc ? rc : keep_list_make(&plan->keep, &plan->selection, &table, recipe, keep, err);
	rc = rc ? rc : plan_check_model(plan, keep->path, table.model, err);
	kld_table_release(&table);
	return rc;
}

static json_t *given(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

json_t *quantize_keep_json(const struct plan *plan, const struct keep_params *keep)
{
	const struct keep_list *list = &plan->keep;

	return json_pack("{s:s, s:o, s:o, s:f}", "sha256", list->file_sha256, "budget",
			 given(keep->budget), "max_kld", given(keep->max_kld), "predicted_kld",
			 list->kld);
}
