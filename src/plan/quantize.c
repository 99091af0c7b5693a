/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `quantize`: source, selection, specs, outputs, configuration, in this order.
 */
#include "plan/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/rounding.h"
#include "plan/bands.h"
#include "expect/expect.h"

#define DEFAULT_RECIPE "blockwise"

static int check_history(const struct recipe *recipe, const struct quantize_params *params,
			 struct err *err)
{
	if (!recipe->needs_history || params->calibration.path)
		return 0;
	return err_set(err, ERR_USAGE,
		       "recipe '%s' needs an amax history: run 'fp8conv calibrate MODEL --data "
		       "FILE -o stats.amax' and give it with --calibration stats.amax",
		       recipe->name);
}

/* Returns the i-th recipe that rules and the list of tensors ask for; NULL: to keep tensors. */
static const struct recipe *asked_recipe(const struct select_options *select, size_t i)
{
	return i < select->rules.n ? select->rules.list[i].recipe
				   : select->named->lines[i - select->rules.n].recipe;
}

static size_t n_asked(const struct select_options *select)
{
	return select->rules.n + (select->named ? select->named->names.n : 0);
}

/* ERR_USAGE for a calibration without any effect. */
static int check_use(const struct plan *plan, const struct quantize_params *params,
		     const struct static_scales *scales, struct err *err)
{
	bool used = params->calibration.kv_cache || static_scales_is_static(scales, plan->recipe);

	for (size_t i = 0; i < n_asked(&params->select) && !used; i++) {
		const struct recipe *recipe = asked_recipe(&params->select, i);

		used = recipe && static_scales_is_static(scales, recipe);
	}
	if (used || !params->calibration.path)
		return 0;
	return err_set(err, ERR_USAGE,
		       "option '--calibration' does not apply to recipe '%s', whose "
		       "activations are dynamic: use recipe delayed or current, or "
		       "--kv-cache",
		       plan->recipe->name);
}

/* Checks recipe and format before the source is read: a wrong name must not cost a spooled
 * stream. */
static int plan_request(struct plan *plan, const struct quantize_params *params,
			const struct static_scales *scales, struct err *err)
{
	struct scheme scheme;

	if (params->select.requantize && params->convert.preserve)
		return err_set(err, ERR_USAGE,
			       "options '--preserve-high-precision' and '--requantize' cannot be "
			       "combined: an FP8 source has no high-precision values");
	plan->recipe = recipe_find(params->recipe ? params->recipe : DEFAULT_RECIPE, err);
	if (!plan->recipe || recipe_weight_spec(plan->recipe, &params->tuning, &plan->spec, err) ||
	    check_history(plan->recipe, params, err) || check_use(plan, params, scales, err))
		return -1;
	for (size_t i = 0; i < n_asked(&params->select); i++) {
		const struct recipe *recipe = asked_recipe(&params->select, i);

		if (recipe && check_history(recipe, params, err))
			return -1;
	}
	if (engine_find(params->target, &plan->target, err))
		return -1;
	scheme = scheme_from_qspec(&plan->spec, static_scales_is_static(scales, plan->recipe));
	plan->format =
		format_select(params->format, plan->target, &scheme, plan->recipe->name, err);
	return plan->format ? 0 : -1;
}

/* Makes the spec of a part of a table: E4M3, and a power of two as scale, which BF16 holds. */
static int table_spec(struct plan *plan, size_t u, struct err *err)
{
	const struct recipe_tuning tuning = { .scale_fmt = "ue8m0" };
	struct qspec spec;

	if (recipe_weight_spec(plan->selection.units[u].recipe, &tuning, &spec, err))
		return -1;
	plan_spec_set(plan, u, &spec);
	return 0;
}

/* Makes the spec of a unit: the job's recipe gets the whole tuning, others only the FP8 format. */
static int unit_spec(struct plan *plan, const struct quantize_params *params, size_t u,
		     struct err *err)
{
	const struct recipe_tuning tuning = { .fp8_format = params->tuning.fp8_format };
	const struct unit *unit = &plan->selection.units[u];
	struct scheme scheme;
	struct qspec spec;

	if (unit->table)
		return table_spec(plan, u, err);
	if (unit->recipe != plan->recipe) {
		if (recipe_weight_spec(unit->recipe, &tuning, &spec, err))
			return -1;
		plan_spec_set(plan, u, &spec);
	}
	scheme = scheme_from_qspec(plan->units[u].spec, unit->static_input);
	if (engine_check(plan->target, plan->format, &scheme, unit->recipe->name, err))
		return err_wrap(err, "tensor '%s'", unit->name);
	return 0;
}

static int plan_specs(struct plan *plan, const struct quantize_params *params, struct err *err)
{
	plan_specs_begin(plan);
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		if (plan->selection.units[u].recipe && unit_spec(plan, params, u, err))
			return -1;
	}
	return 0;
}

/* Called after selection_keep(): units may have moved. */
static int plan_settle(struct plan *plan, const struct quantize_params *params, struct err *err)
{
	if (selection_settle(&plan->selection, err) || plan_specs(plan, params, err))
		return -1;
	return 0;
}

/* Keeps units whose shape the format cannot represent. */
static int plan_shapes(struct plan *plan, const struct quantize_params *params, struct err *err)
{
	struct selection *selection = &plan->selection;
	const char *reason = NULL;
	size_t n_left = 0;

	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		struct scaled_weight weight = unit_scaled_weight(unit);
		struct scheme scheme;
		const char *refused;

		if (!unit->recipe)
			continue;
		scheme = scheme_from_qspec(plan->units[u].spec, unit->static_input);
		refused = format_refuse_shape(plan->format, &scheme, plan->target, &weight);
		if (!refused)
			continue;
		reason = refused;
		selection_keep(selection, u, refused);
	}
	if (!reason)
		return 0;
	for (size_t u = 0; u < selection->n_units; u++)
		n_left += selection->units[u].recipe != NULL;
	if (n_left == 0)
		return err_set(err, ERR_USAGE,
			       "format '%s' cannot hold any weight of '%s' with recipe '%s': %s",
			       plan->format->name, params->convert.input, plan->recipe->name,
			       reason);
	return plan_settle(plan, params, err);
}

/* Makes lists of the units of each scale group, in order. */
static void plan_groups(struct plan *plan)
{
	plan->groups = xcalloc(plan->selection.n_scale_groups, sizeof *plan->groups);
	for (size_t g = 0; g < plan->selection.n_scale_groups; g++)
		plan->groups[g] = (struct plan_group){ .first = NO_UNIT, .amax = NAN };
	for (size_t u = plan->selection.n_units; u-- > 0;) {
		struct plan_group *group = &plan->groups[plan->selection.units[u].scale_group];

		if (!plan->selection.units[u].recipe)
			continue;
		plan->units[u].next_in_group = group->first;
		group->first = (uint32_t)u;
	}
}

/* Keeps skipped units before the outputs are made, because they change names and places. */
static int plan_skip(struct plan *plan, const struct quantize_params *params,
		     struct progress *progress, struct err *err)
{
	if (params->convert.on_nonfinite != NONFINITE_SKIP)
		return 0;
	if (params->skip_nonfinite(plan, &params->convert, progress, err))
		return -1;
	return plan_settle(plan, params, err);
}

/* Called before specs are made: uncovered units may be kept, or get another scheme. */
static int plan_cover(struct plan *plan, struct static_scales *scales, struct err *err)
{
	bool kept;

	if (!scales->params->path)
		return 0;
	if (static_scales_join(scales, &plan->selection, err) ||
	    static_scales_cover(scales, plan, &kept, err))
		return -1;
	return kept ? selection_settle(&plan->selection, err) : 0;
}

/* Takes the rows of the model's family, and the format that they prefer if the user names none. */
static int plan_profile(struct plan *plan, const struct quantize_params *params,
			const struct static_scales *scales, struct err *err)
{
	struct scheme scheme =
		scheme_from_qspec(&plan->spec, static_scales_is_static(scales, plan->recipe));

	if (plan_take_profile(plan, params->profile, err))
		return -1;
	if (params->format)
		return 0;
	plan_prefer_format(plan, &scheme);
	return plan_params_format(plan, &scheme, err);
}

static int check_exact(const struct plan *plan, const struct quantize_params *params,
		       struct err *err)
{
	if (!params->convert.exact || low_bit_total(plan).n)
		return 0;
	if (plan->selection.low_bit.n && !params->select.requantize)
		return err_set(err, ERR_USAGE,
			       "option '--exact' is for low-bit weights that are converted: use "
			       "--requantize too");
	return err_set(err, ERR_USAGE,
		       "option '--exact' is for low-bit weights, and none of '%s' are quantized",
		       params->convert.input);
}

/* Makes the plan after the request is checked and the source is open. */
static int plan_source(struct plan *plan, const struct quantize_params *params,
		       struct static_scales *scales, struct progress *progress, struct err *err)
{
	struct select_options select = params->select;

	if (plan_profile(plan, params, scales, err))
		return -1;
	select.recipe = plan->recipe;
	select.profile = &plan->profile;
	select.format = plan->format;
	select.target = plan->target;
	select.advise = true;
	if (expect_elements(&plan->source, err) ||
	    selection_make(&plan->selection, &plan->source, &select, err) ||
	    (select.requantize && plan_check_source(plan, params->convert.io, err)) ||
	    plan_cover(plan, scales, err) || plan_specs(plan, params, err) ||
	    plan_shapes(plan, params, err) || plan_skip(plan, params, progress, err))
		return -1;
	plan_groups(plan);
	if (check_exact(plan, params, err) || static_scales_apply(scales, plan, err) ||
	    quantize_keep(plan, params, err) || rounding_plan(plan, params, err) ||
	    plan_configuration(plan, err) ||
	    quantize_outputs(plan, params->convert.preserve != NULL, err))
		return -1;
	plan->options = quantize_identity(plan, params);
	if (plan->rounding)
		plan->totals.memory_bytes += plan->rounding->plan.memory_bytes;
	return plan_finish(plan, &params->convert, progress, err);
}

static int plan_make(struct plan *plan, const struct quantize_params *params,
		     struct progress *progress, struct err *err)
{
	const struct convert_params *convert = &params->convert;
	struct static_scales scales;
	struct band_limits limits;
	int rc = -1;

	*plan = (struct plan){ .stream_fd = -1, .conversion = CONVERT_QUANTIZE };
	if (static_scales_open(&scales, convert, &params->calibration, err) ||
	    plan_request(plan, params, &scales, err) ||
	    band_limits_plan(convert, &limits, &plan->totals.memory_bytes, err) ||
	    plan_open(plan, convert, progress, err) ||
	    plan_source(plan, params, &scales, progress, err))
		goto out;
	rc = 0;
out:
	static_scales_release(&scales);
	if (rc)
		plan_release(plan);
	return rc;
}

int quantize_plan_make(struct plan *plan, const struct quantize_params *params,
		       struct progress *progress, struct err *err)
{
	struct quantize_params all = *params;
	struct named named = { 0 };
	int rc = 0;

	*plan = (struct plan){ .stream_fd = -1 };
	if (params->tensors) {
		rc = named_read(&named, params->convert.io, params->tensors, err);
		all.select.named = &named;
	}
	rc = rc ? rc : plan_make(plan, &all, progress, err);
	named_release(&named);
	return rc;
}
