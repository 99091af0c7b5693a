/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `repack`: the same codes with another description.  Recipe and spec of each weight
 * follow from its scales, and the format must be able to represent them.
 */
#include "plan/repack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/bands.h"
#include "plan/rescale.h"
#include "format/scale_names.h"
#include "names/role.h"
#include "num/fp8.h"
#include "select/fp8_units.h"
#include "select/skip_list.h"

static bool is_blocks(const struct unit *unit, const struct qspec *spec)
{
	return unit->recipe && (spec->scale_type == SCALE_E8M0 || spec->tile.cols != WHOLE) &&
	       unit->source_scale.scale_type == SCALE_F32;
}

/* Reads the scales of all blocks, since no configuration says whether they are powers of two.
 * Those that become exponents must be (else ERR_USAGE); for the others, spec.pow2 becomes whether
 * all are. */
static int check_blocks(struct plan *plan, const struct io *io, struct err *err)
{
	struct source source;
	int rc = 0;

	source_init(&source, io, &plan->source, NULL, plan->stream_fd);
	for (size_t u = 0; !rc && u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		const struct st_tensor *scale;
		struct scales_found found;
		struct qspec spec;

		if (!is_blocks(unit, plan->units[u].spec))
			continue;
		scale = unit->source_scale.scale->tensor;
		rc = scales_find(&source, unit, &found, err);
		spec = *plan->units[u].spec;
		spec.pow2 = found.pow2;
		plan_spec_set(plan, u, &spec);
		if (!rc && !found.pow2 && spec.scale_type == SCALE_E8M0)
			rc = err_set(
				err, ERR_USAGE,
				"scale '%s' in '%s' is %.9g at %" PRIu64
				", which is not a power of two from 2^-127 to 2^127: mxfp8 has "
				"only exponents, so quantize the model again",
				scale->name,
				plan->source.shards[unit->source_scale.scale->shard].file.path,
				(double)found.odd, found.at);
	}
	rc = source_close(&source, rc, err);
	source_release(&source);
	return rc;
}

static const struct tile mx_tile = { 1, 32 };

/* Returns the spec that a unit's scales imply.  Blocks with E8M0 scales are MX only if they have
 * the size of MX blocks. */
static struct qspec spec_of(const struct unit *unit)
{
	const struct weight_scale *from = &unit->source_scale;
	bool is_mx = from->scale_type == SCALE_E8M0 && from->tile.rows == mx_tile.rows &&
		     from->tile.cols == mx_tile.cols;

	return (struct qspec){ .format = fp8_of_dtype(unit->source->tensor->dtype),
			       .tile = from->tile,
			       .scale_type = is_mx ? SCALE_E8M0 : SCALE_F32,
			       .pow2 = from->scale_type == SCALE_E8M0 };
}

static int refuse_mx(const struct unit *unit, const char *why, struct err *err)
{
	return err_set(err, ERR_USAGE,
		       "tensor '%s' (%" PRIu64 " x %" PRIu64 ") cannot become mxfp8: %s",
		       unit->name, unit->rows, unit->cols, why);
}

static int make_mx(const struct unit *unit, struct qspec *spec, struct err *err)
{
	const struct tile tile = spec->tile;

	if (spec->scale_type == SCALE_E8M0)
		return 0;
	if (tile.rows == WHOLE || tile.cols == WHOLE || tile.cols % mx_tile.cols)
		return refuse_mx(unit,
				 "only scales of blocks with a multiple of 32 columns can be "
				 "converted",
				 err);
	if (unit->cols % mx_tile.cols)
		return refuse_mx(unit, "the number of its columns is not a multiple of 32", err);
	spec->tile = mx_tile;
	spec->scale_type = SCALE_E8M0;
	return 0;
}

static int check_readable(const struct unit *unit, struct err *err)
{
	const struct weight_scale *from = &unit->source_scale;

	if (from->tile.rows == WHOLE && from->tile.cols != WHOLE)
		return err_set(err, ERR_USAGE,
			       "tensor '%s' has one scale for each %zu columns, which no format "
			       "supports",
			       unit->name, from->tile.cols);
	return 0;
}

static int weight_spec(struct plan *plan, const struct repack_params *params, size_t u,
		       struct err *err)
{
	struct unit *unit = &plan->selection.units[u];
	bool is_static = input_scale_beside(&plan->source, unit->name) != NULL;
	struct scheme scheme;
	struct qspec spec;

	if (check_readable(unit, err))
		return -1;
	spec = spec_of(unit);
	if (params->recipe && !unit->table && make_mx(unit, &spec, err))
		return -1;
	plan_spec_set(plan, u, &spec);
	scheme = scheme_from_qspec(&spec, is_static);
	unit->recipe = recipe_of_scheme(scheme.granularity, is_static);
	unit->static_input = is_static;
	return 0;
}

/* ERR_USAGE unless the format can say that an embedding is FP8. */
static int check_table(const struct plan *plan, const struct unit *unit, struct err *err)
{
	if (plan->format->tables)
		return 0;
	return err_set(
		err, ERR_USAGE,
		"tensor '%s' is a part of an embedding in FP8, which format '%s' cannot hold: "
		"use --format hf, or 'fp8conv dequantize', then 'fp8conv quantize'",
		unit->name, plan->format->name);
}

static int check_weight(const struct plan *plan, size_t u, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];
	struct scheme scheme = scheme_from_qspec(plan->units[u].spec, unit->static_input);
	struct scaled_weight weight;
	const char *refused;

	if (unit->table)
		return check_table(plan, unit, err);
	if (engine_check(plan->target, plan->format, &scheme, unit->recipe->name, err))
		return err_wrap(err, "tensor '%s'", unit->name);
	weight = unit_scaled_weight(unit);
	refused = format_refuse_shape(plan->format, &scheme, plan->target, &weight);
	if (!refused)
		return 0;
	if (weight.experts)
		return err_set(err, ERR_USAGE, "tensor '%s' does not fit format '%s': %s",
			       unit->name, plan->format->name, refused);
	return err_set(err, ERR_USAGE,
		       "tensor '%s' (%" PRIu64 " x %" PRIu64 ") does not fit format '%s': %s",
		       unit->name, unit->rows, unit->cols, plan->format->name, refused);
}

/* Returns the first of the weights with the most common recipe. */
static size_t commonest(const struct plan *plan)
{
	size_t max = 0, found = 0;

	for (size_t r = 0; recipes[r]; r++) {
		size_t n = 0, first = 0;

		for (size_t u = plan->selection.n_units; u-- > 0;) {
			if (plan->selection.units[u].recipe != recipes[r] ||
			    plan->selection.units[u].table)
				continue;
			n++;
			first = u;
		}
		if (n > max) {
			max = n;
			found = first;
		}
	}
	return found;
}

static int choose_format(struct plan *plan, const struct repack_params *params, struct err *err)
{
	size_t u = commonest(plan);
	struct scheme scheme;

	plan->recipe = plan->selection.units[u].recipe;
	plan->spec = *plan->units[u].spec;
	scheme = scheme_from_qspec(&plan->spec, plan->recipe->needs_history);
	plan->format =
		format_select(params->format, plan->target, &scheme, plan->recipe->name, err);
	if (!plan->format)
		return -1;
	if (params->format)
		return 0;
	plan_prefer_format(plan, &scheme);
	return plan_params_format(plan, &scheme, err);
}

static int plan_specs(struct plan *plan, const struct repack_params *params, struct err *err)
{
	struct selection *selection = &plan->selection;

	plan_specs_begin(plan);
	for (size_t u = 0; u < selection->n_units; u++) {
		struct unit *unit = &selection->units[u];
		struct role_facts facts;

		role_of_name(&facts, unit->name);
		unit->linear = tensor_is_linear(unit->source->tensor, &facts);
		unit->table = unit->source_scale.scale &&
			      scale_is_shared(unit->name, unit->source_scale.scale->tensor->name);
		unit->skip = skip_need(unit->source->tensor, &facts);
		if (unit->source_scale.scale && weight_spec(plan, params, u, err))
			return -1;
	}
	if (choose_format(plan, params, err))
		return -1;
	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe && check_weight(plan, u, err))
			return -1;
	return 0;
}

/* Whether activations are quantized is not in the tensors.  Engines have no MX and no static scales
 * without it. */
static void keep_activations(struct plan *plan, const struct detection *detection)
{
	plan->weight_only = detection->weight_only && plan->format->weight_only;
	for (size_t u = 0; u < plan->selection.n_units; u++)
		if (plan->selection.units[u].recipe &&
		    (plan->units[u].spec->scale_type == SCALE_E8M0 ||
		     plan->selection.units[u].static_input))
			plan->weight_only = false;
	if (detection->weight_only && !plan->weight_only)
		notes_add(&plan->selection.notes, NOTE_ACTIVATIONS, NULL,
			  "the source keeps activations in high precision, but in format '%s' "
			  "engines quantize them too: compare the quality of both",
			  plan->format->name);
}

static int plan_units(struct plan *plan, struct detection *detection,
		      const struct repack_params *params, struct err *err)
{
	const struct convert_params *convert = &params->convert;

	if (fp8_source_detect(detection, &plan->source, convert->io, err))
		return -1;
	/* Without a configuration, the scheme of most weights decides where a shape has several
	 * readings. */
	if (!detection->declared)
		detection->declared_tile = detection->scheme.tile;
	if (fp8_units_make(&plan->selection, &plan->source, detection, err))
		return -1;
	if (!plan->selection.n_quantized)
		return err_set(err, ERR_USAGE, "nothing to repack: '%s' has no FP8 weights",
			       convert->input);
	if (detection->inverted)
		notes_add(&plan->selection.notes, NOTE_INVERTED, NULL,
			  "the scales are divisors: they are inverted (1 / scale in fp32)");
	if (plan_check_source(plan, convert->io, err) || plan_specs(plan, params, err) ||
	    check_blocks(plan, convert->io, err))
		return -1;
	keep_activations(plan, detection);
	plan->options = json_pack("{s:s, s:s, s:s, s:s?}", "format", plan->format->name, "target",
				  engine_name(plan->target), "from", detection->format, "recipe",
				  params->recipe);
	return repack_outputs(plan, detection, err);
}

static int plan_request(struct plan *plan, const struct repack_params *params, struct err *err)
{
	if (!params->format && !params->target)
		return err_set(err, ERR_USAGE,
			       "option '--format' is missing: choose a format, or an engine with "
			       "--target");
	if (params->recipe && strcmp(params->recipe, "mxfp8") != 0)
		return err_set(err, ERR_USAGE,
			       "option '--recipe': '%s' is not possible: repack keeps the codes "
			       "and can only turn blocks into mxfp8",
			       params->recipe);
	return engine_find(params->target, &plan->target, err);
}

int repack_plan_make(struct plan *plan, const struct repack_params *params,
		     struct progress *progress, struct err *err)
{
	const struct convert_params *convert = &params->convert;
	struct detection detection = { 0 };
	struct band_limits limits;
	int rc = -1;

	*plan = (struct plan){ .stream_fd = -1, .conversion = CONVERT_REPACK };
	if (plan_request(plan, params, err) ||
	    band_limits_plan(convert, &limits, &plan->totals.memory_bytes, err) ||
	    plan_open(plan, convert, progress, err) ||
	    plan_take_profile(plan, PROFILE_ENGINE, err) ||
	    plan_units(plan, &detection, params, err) || plan_configuration(plan, err) ||
	    plan_finish(plan, convert, progress, err))
		goto out;
	rc = 0;
out:
	detection_release(&detection);
	if (rc)
		plan_release(plan);
	return rc;
}
