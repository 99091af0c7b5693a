/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups that `quantize --keep` leaves in high precision, or gives another recipe, from a table
 * of divergences.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/quantize.h"
#include "plan/static_scales.h"
#include "select/keep_list.h"

int quantize_check_keep(const struct keep_params *keep, struct err *err)
{
	const char *alone = keep->budget > 0	? "--budget"
			    : keep->max_kld > 0 ? "--max-kld"
			    : keep->n_as	? "--keep-as"
						: NULL;

	if (!keep->path && alone)
		return err_set(err, ERR_USAGE, "option '%s' requires '--keep'", alone);
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

/* Finds a recipe in the table: with the same numbers. */
static int find_recipe(const struct kld_table *table, const struct recipe *wanted,
		       const struct qspec *spec, const char *path, size_t *recipe, struct err *err)
{
	json_t *scales;
	bool same;

	*recipe = kld_table_find(table, wanted->name);
	if (*recipe == SIZE_MAX) {
		char *names = recipe_names(table);

		err_set(err, ERR_USAGE, "'%s' does not measure recipe '%s', but %s", path,
			wanted->name, names);
		free(names);
		return -1;
	}
	scales = quantize_spec_json(spec);
	same = json_equal(json_object_get(table->recipes[*recipe].options, "scales"), scales);
	json_decref(scales);
	if (same)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' measures recipe '%s' with other scales: repeat the options of "
		       "'fp8conv sensitivity'",
		       path, wanted->name);
}

/* Keeps what the format or the target does not have by the recipe of the alternative: that is then
 * not offered. */
static void keep_refused(const struct plan *plan, struct keep_alternative *alternative,
			 const struct scheme *scheme)
{
	struct selection *selection = &alternative->selection;
	const char *experts = engine_refuses_experts(plan->target, plan->format, scheme);

	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		const struct scaled_weight weight = unit_scaled_weight(unit);
		const char *refused;

		if (unit->recipe != alternative->recipe)
			continue;
		refused = format_refuse_shape(plan->format, scheme, plan->target, &weight);
		if (!refused && strstr(unit->name, ".experts."))
			refused = experts;
		if (refused)
			selection_keep(selection, u, refused);
	}
}

/* Makes the selection by another recipe, which is then that of --tensor. */
static int alternative_make(const struct plan *plan, const struct quantize_params *params,
			    const struct kld_table *table, struct keep_alternative *alternative,
			    struct err *err)
{
	const struct select_options select =
		quantize_select_options(plan, params, alternative->recipe);
	const struct scheme own = scheme_from_qspec(&plan->spec, false);
	struct scheme scheme;
	struct qspec spec;

	if (quantize_other_spec(params, alternative->recipe, &spec, err) ||
	    find_recipe(table, alternative->recipe, &spec, params->keep.path,
			&alternative->in_table, err))
		return -1;
	scheme = scheme_from_qspec(&spec, false);
	if (engine_check(plan->target, plan->format, &scheme, alternative->recipe->name, err) ||
	    format_check_mixed(plan->format, plan->target, &own, &scheme, err) ||
	    selection_make(&alternative->selection, &plan->source, &select, err))
		return -1;
	keep_refused(plan, alternative, &scheme);
	return 0;
}

/* Adds what a word of --keep-as means to the offer. */
static int offer_add(struct keep_offer *offer, const struct plan *plan,
		     const struct static_scales *scales, const char *word, struct err *err)
{
	const struct recipe *recipe = NULL;
	bool twice = false;

	if (strcmp(word, KEEP_BF16) != 0) {
		recipe = recipe_find(word, err);
		if (!recipe)
			return -1;
	}
	for (size_t i = 0; i < offer->n; i++)
		twice |= offer->alternatives[i].recipe == recipe;
	if (twice || (!recipe && offer->bf16))
		return err_set(err, ERR_USAGE, "duplicate '%s'", word);
	if (!recipe) {
		offer->bf16 = true;
		return 0;
	}
	if (recipe == plan->recipe)
		return err_set(err, ERR_USAGE,
			       "'%s' is the recipe of all other groups: give another one", word);
	if (recipe->needs_history || static_scales_is_static(scales, recipe))
		return err_set(err, ERR_USAGE,
			       "recipe '%s' has static scales of inputs: give one whose "
			       "activations are dynamic",
			       word);
	ARRAY_GROW(offer->alternatives, offer->n);
	offer->alternatives[offer->n++] = (struct keep_alternative){ .recipe = recipe };
	return 0;
}

static int offer_make(struct keep_offer *offer, const struct plan *plan,
		      const struct quantize_params *params, const struct static_scales *scales,
		      struct err *err)
{
	const struct keep_params *keep = &params->keep;
	int rc = 0;

	offer->bf16 = !keep->n_as;
	for (size_t i = 0; i < keep->n_as && !rc; i++)
		rc = offer_add(offer, plan, scales, keep->as[i], err);
	for (size_t i = 0; i < offer->n && !rc; i++)
		rc = alternative_make(plan, params, offer->table, &offer->alternatives[i], err);
	return rc && keep->n_as ? err_wrap(err, "option '--keep-as'") : rc;
}

static void offer_release(struct keep_offer *offer)
{
	for (size_t i = 0; i < offer->n; i++)
		selection_release(&offer->alternatives[i].selection);
	free(offer->alternatives);
}

int quantize_sensitive(struct plan *plan, const struct quantize_params *params,
		       const struct static_scales *scales, struct err *err)
{
	const struct keep_params *keep = &params->keep;
	struct kld_table table;
	struct keep_offer offer = { .table = &table };
	int rc;

	if (kld_table_read(&table, params->convert.io, AT_FDCWD, keep->path, false, err))
		return -1;
	rc = find_recipe(&table, plan->recipe, &plan->spec, keep->path, &offer.recipe, err);
	rc = rc ? rc : offer_make(&offer, plan, params, scales, err);
	rc = rc ? rc : keep_list_make(&plan->keep, &plan->selection, &offer, keep, err);
	rc = rc ? rc : plan_check_model(plan, keep->path, table.model, err);
	offer_release(&offer);
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
	json_t *json = json_pack("{s:s, s:o, s:o, s:f}", "sha256", list->file_sha256, "budget",
				 given(keep->budget), "max_kld", given(keep->max_kld),
				 "predicted_kld", list->kld);
	json_t *as = json_array();

	for (size_t i = 0; i < keep->n_as; i++)
		json_array_append_new(as, json_string(keep->as[i]));
	if (keep->n_as)
		json_object_set(json, "as", as);
	json_decref(as);
	return json;
}
