/* SPDX-License-Identifier: Apache-2.0
 *
 * The FP8 weights of a source that have the type and tiles of their recipe already: to quantize
 * them again could only lose, so `quantize --requantize` copies codes and scales.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "plan/quantize.h"
#include "plan/rescale.h"
#include "num/fp8.h"

/* Does the job change the numbers of its recipe, which the source cannot be asked for? */
static bool is_tuned(const struct recipe_tuning *tuning)
{
	return tuning->scale_arith || tuning->mx_scale || tuning->amax_epsilon || tuning->margin;
}

/* Does the unit have the type and tiles of its spec already?  One scale for a whole weight must
 * besides be that of its group, and not come from a calibration; a stack has many. */
static bool is_alike(const struct plan *plan, const struct quantize_params *params, size_t u)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct weight_scale *from = &unit->source_scale;
	const struct qspec *spec = plan->units[u].spec;

	if (!unit->recipe || !from->scale || unit->table || from->inverted)
		return false;
	if (unit->recipe == plan->recipe && is_tuned(&params->tuning))
		return false;
	/* saturation changes infinity, which E4M3 does not have */
	if (spec->format == FP8_E5M2 && params->convert.on_nonfinite == NONFINITE_SATURATE)
		return false;
	if (spec->tile.rows == WHOLE &&
	    (unit->stack || !isnan(plan->groups[unit->scale_group].amax)))
		return false;
	return unit->source->tensor->dtype == dtype_of_fp8(spec->format) &&
	       from->tile.rows == spec->tile.rows && from->tile.cols == spec->tile.cols;
}

/* Can the output hold the scales?  Powers of two are claimed where all are, unless the user asks
 * for them. */
static bool is_held(const struct plan *plan, const struct quantize_params *params, size_t u,
		    const struct scales_found *found)
{
	const struct qspec *spec = plan->units[u].spec;
	bool own = plan->selection.units[u].recipe == plan->recipe;

	if (!found->valid)
		return false;
	return found->pow2 ||
	       (spec->scale_type == SCALE_F32 && !(spec->pow2 && own && params->tuning.scale_fmt));
}

/* Quantizes all weights of a group with one scale again, unless all have the same one. */
static void settle_group(struct plan *plan, const struct plan_group *group, const float *scales)
{
	bool alike = true;

	for (size_t u = group->first; u != NO_UNIT; u = plan->units[u].next_in_group)
		if (plan->units[u].spec->tile.rows == WHOLE)
			alike &= plan->units[u].same_codes && scales[u] == scales[group->first];
	for (size_t u = group->first; !alike && u != NO_UNIT; u = plan->units[u].next_in_group)
		plan->units[u].same_codes = false;
}

static int find_same(struct plan *plan, const struct quantize_params *params, struct source *source,
		     float *scales, bool *pow2, struct err *err)
{
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		struct scales_found found;

		if (!is_alike(plan, params, u))
			continue;
		if (scales_find(source, &plan->selection.units[u], &found, err))
			return -1;
		plan->units[u].same_codes = is_held(plan, params, u, &found);
		scales[u] = found.first;
		pow2[u] = found.pow2;
	}
	for (size_t g = 0; g < plan->selection.n_scale_groups; g++)
		settle_group(plan, &plan->groups[g], scales);
	return 0;
}

int quantize_keep(struct plan *plan, const struct quantize_params *params, struct err *err)
{
	size_t n = plan->selection.n_units;
	float *scales;
	bool *pow2;
	struct source source;
	int rc;

	if (!params->select.requantize)
		return 0;
	scales = xcalloc(n, sizeof *scales);
	pow2 = xcalloc(n, sizeof *pow2);
	source_init(&source, params->convert.io, &plan->source, NULL, plan->stream_fd);
	rc = find_same(plan, params, &source, scales, pow2, err);
	for (size_t u = 0; !rc && u < n; u++) {
		struct qspec spec = *plan->units[u].spec;

		if (!plan->units[u].same_codes || pow2[u])
			continue;
		spec.pow2 = false;
		plan_spec_set(plan, u, &spec);
	}
	rc = source_close(&source, rc, err);
	source_release(&source);
	free(scales);
	free(pow2);
	return rc;
}
