/* SPDX-License-Identifier: Apache-2.0
 *
 * From decisions to files: the tensors of every output shard, with their places.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "convert/quantize_internal.h"

static void add_value(struct plan *plan, size_t u, struct scale_decl *decl, float value)
{
	char *name = arena_take(&plan->texts, decl->name);

	plan_add(plan, u, OUTPUT_VALUE, NULL, name, decl->dtype, decl->n_dims, decl->shape)->value =
		value;
}

/* *at is the first cache scale that has no output yet. */
static void unit_caches(struct plan *plan, size_t u, size_t *at)
{
	for (; *at < plan->n_caches && plan->caches[*at].unit == u; ++*at) {
		const struct cache_scale *cache = &plan->caches[*at];
		struct scale_decl decl;

		format_kv_scale(plan->format, cache->attention, cache->which, &decl);
		add_value(plan, u, &decl, cache->scale_inv);
	}
}

static int unit_quantize(struct plan *plan, size_t u, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct qspec *spec = plan->specs[u];
	struct scheme scheme = scheme_from_qspec(spec, unit->static_input);
	uint64_t shape[2] = { unit->rows, unit->cols };
	uint64_t n_scales =
		tile_count(unit->rows, spec->tile.rows) * tile_count(unit->cols, spec->tile.cols);
	struct scale_decl scale;

	plan_add(plan, u, OUTPUT_CODES, NULL, unit->name,
		 spec->format == FP8_E5M2 ? DT_F8_E5M2 : DT_F8_E4M3, 2, shape);
	format_scale(plan->format, &scheme, plan->target, unit->name, unit->rows, unit->cols,
		     &scale);
	plan_add(plan, u, OUTPUT_SCALE, NULL, arena_take(&plan->texts, scale.name), scale.dtype,
		 scale.n_dims, scale.shape);
	plan->n_converted++;
	if (unit->static_input) {
		struct scale_decl input;

		format_input_scale(plan->format, &scheme, plan->target, unit->name, &input);
		add_value(plan, u, &input, plan->input_scale_inv[u]);
	}
	if (st_n_elements(scale.shape, scale.n_dims) != n_scales ||
	    dtype_bits(scale.dtype) / 8 != scale_size(spec->scale_type))
		return err_set(err, ERR_USAGE,
			       "format '%s' cannot hold the %llu scales of tensor '%s'",
			       plan->format->name, (unsigned long long)n_scales, unit->name);
	return 0;
}

/* The source of a quantized unit, once, whatever the number of units that are cut from it. */
static void unit_preserve(struct plan *plan, size_t u)
{
	const struct tensor_ref *ref = plan->selection.units[u].source;
	struct output_shard *shard = &plan->preserved[ref->shard];

	if (u == 0 || plan->selection.units[u - 1].source != ref ||
	    !plan->selection.units[u - 1].recipe)
		output_shard_add(shard, ref->tensor);
	plan->unit_preserved[u] = shard->n_tensors - 1;
}

int quantize_outputs(struct plan *plan, bool preserve, struct err *err)
{
	size_t cache = 0;

	if (plan->n_caches && !plan->format->kv_scale)
		return format_refuse_kv(plan->format, err);
	plan_begin(plan, preserve);
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		plan_unit_begin(plan, u);
		if (!plan->selection.units[u].recipe)
			plan_keep(plan, u);
		else if (unit_quantize(plan, u, err))
			return -1;
		else if (preserve)
			unit_preserve(plan, u);
		unit_caches(plan, u, &cache);
	}
	return plan_layout(plan, err);
}
