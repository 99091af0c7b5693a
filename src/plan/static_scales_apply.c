/* SPDX-License-Identifier: Apache-2.0
 *
 * From the amax file to numbers: amax of weights, scale_inv of inputs and of KV caches.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/static_scales.h"
#include "names/experts.h"

static const char *const columns[][3] = {
	[AMAX_GEMM] = { "x", "w", "y" },
	[AMAX_ATTENTION] = { "q", "k", "v" },
};

/* Computes the amax of one column over all passes.  Only x and y have histograms. */
int static_scales_amax(const struct static_scales *scales, const struct amax_site *site, int column,
		       const struct qspec *spec, float *amax, struct err *err)
{
	bool counted = site->histogram && column != AMAX_W;
	struct static_history history = {
		.amax = &site->history[0][column],
		.n_passes = site->n_passes,
		.amax_stride = 3,
		.counts = counted ? &site->histogram[0][column == AMAX_Y] : NULL,
		.counts_stride = 2,
	};

	*amax = static_amax(&scales->choice, &history, spec);
	if (isfinite(*amax))
		return 0;
	return err_set(
		err, ERR_INPUT,
		"amax of %s of module '%s' in '%s' is infinite: it overflowed in the forward pass",
		columns[site->kind][column], site->name, scales->params->path);
}

/* Is a module the same part of another expert of the same layer? */
static bool is_sibling(const char *name, const char *other, size_t prefix)
{
	return !strncmp(name, other, prefix) &&
	       !strcmp(name + prefix + strspn(name + prefix, "0123456789"),
		       other + prefix + strspn(other + prefix, "0123456789"));
}

/* Computes the maximum over the covered experts of the layer. */
static int siblings_amax(const struct static_scales *scales, const struct unit *unit,
			 const struct amax_site *site, const struct qspec *spec, float *amax,
			 struct err *err)
{
	size_t prefix = experts_prefix_len(unit->name), n = 0;
	float one;

	*amax = 0;
	for (size_t i = 0; i < scales->stats.n_sites; i++) {
		const struct amax_site *other = scales->stats.sites[i];

		if (other->kind != AMAX_GEMM || !is_sibling(site->name, other->name, prefix) ||
		    !static_scales_covers(scales, other))
			continue;
		if (static_scales_amax(scales, other, AMAX_X, spec, &one, err))
			return -1;
		*amax = one > *amax ? one : *amax;
		n++;
	}
	if (n)
		return 0;
	return err_set(err, ERR_INPUT,
		       "option '--uncovered group-max': no expert beside '%s' has enough "
		       "tokens in '%s'",
		       site->name, scales->params->path);
}

/* Returns the weight's spec with the input's format and tile. */
static struct qspec input_spec(const struct plan *plan, size_t u)
{
	struct qspec spec = *plan->units[u].spec;

	spec.format = plan->selection.units[u].recipe->input.format;
	spec.tile = plan->selection.units[u].recipe->input.tile;
	return spec;
}

static int unit_input_amax(const struct static_scales *scales, const struct plan *plan, size_t u,
			   float *amax, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];
	struct qspec spec = input_spec(plan, u);
	const struct amax_site *site;

	if (static_scales_site(scales, unit, &site, err))
		return -1;
	if (static_scales_covers(scales, site))
		return static_scales_amax(scales, site, AMAX_X, &spec, amax, err);
	return siblings_amax(scales, unit, site, &spec, amax, err);
}

/* Computes the one input scale of the modules that engines merge. */
static int group_input_scale(const struct static_scales *scales, struct plan *plan, size_t first,
			     struct err *err)
{
	float max = 0, amax;

	for (size_t u = first; u != NO_UNIT; u = plan->units[u].next_in_group) {
		if (unit_input_amax(scales, plan, u, &amax, err))
			return -1;
		max = amax > max ? amax : max;
	}
	for (size_t u = first; u != NO_UNIT; u = plan->units[u].next_in_group) {
		struct qspec spec = input_spec(plan, u);

		plan->units[u].input_scale_inv = static_scale_inv(&spec, max);
	}
	return 0;
}

/* A calibration has one amax for all experts of a stack: each takes it. */
static int group_weight_amax(const struct static_scales *scales, struct plan *plan, size_t group,
			     struct err *err)
{
	uint64_t n = unit_matrices(&plan->selection.units[plan->groups[group].first]);
	float max = 0;

	for (size_t u = plan->groups[group].first; u != NO_UNIT; u = plan->units[u].next_in_group) {
		const struct amax_site *site;
		float amax;

		if (static_scales_site(scales, &plan->selection.units[u], &site, err) ||
		    static_scales_amax(scales, site, AMAX_W, plan->units[u].spec, &amax, err))
			return -1;
		max = amax > max ? amax : max;
	}
	for (uint64_t i = 0; i < n; i++)
		plan->groups[group + i].amax = max;
	return 0;
}

static int apply_groups(const struct static_scales *scales, struct plan *plan, struct err *err)
{
	for (size_t group = 0; group < plan->selection.n_scale_groups; group++)
		plan->groups[group].amax = NAN;
	for (size_t group = 0; group < plan->selection.n_scale_groups; group++) {
		size_t first = plan->groups[group].first;

		if (first == NO_UNIT)
			continue;
		if (plan->selection.units[first].recipe->needs_history &&
		    group_weight_amax(scales, plan, group, err))
			return -1;
		if (plan->selection.units[first].static_input &&
		    group_input_scale(scales, plan, first, err))
			return -1;
	}
	return 0;
}

int static_scales_apply(const struct static_scales *scales, struct plan *plan, struct err *err)
{
	if (!scales->params->path)
		return 0;
	if (apply_groups(scales, plan, err))
		return -1;
	return scales->params->kv_cache ? static_scales_kv(scales, plan, err) : 0;
}
