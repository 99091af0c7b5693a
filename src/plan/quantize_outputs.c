/* SPDX-License-Identifier: Apache-2.0
 *
 * From decisions to files: the tensors of every output shard, with their places.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/quantize.h"
#include "plan/repack.h"
#include "num/fp8.h"

/* Adds the cache scales of unit u.  *at: the first cache scale without an output. */
static void unit_caches(struct plan *plan, size_t u, size_t *at)
{
	for (; *at < plan->caches.n && plan->caches.list[*at].unit == u; ++*at) {
		const struct cache_scale *cache = &plan->caches.list[*at];
		struct scale_decl decl;

		format_kv_scale(plan->format,
				&(struct cached){ cache->attention, cache->which, cache->latent },
				&decl);
		plan_add_scale(plan, u, OUTPUT_VALUE, NULL, &decl)->value = cache->scale_inv;
	}
}

/* Adds the scale of a weight: written with the codes, or taken from the source. */
static int unit_scale(struct plan *plan, size_t u, struct scale_decl *decl, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];

	if (plan->units[u].same_codes)
		return repack_scale(plan, u, unit->source_scale.scale, decl, unit_is_cut(unit),
				    err);
	plan_add_scale(plan, u, OUTPUT_SCALE, NULL, decl);
	return 0;
}

static int unit_quantize(struct plan *plan, size_t u, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct qspec *spec = plan->units[u].spec;
	struct scheme scheme = scheme_from_qspec(spec, unit->static_input);
	const struct scaled_weight weight = unit_scaled_weight(unit);
	const uint64_t shape[3] = { weight.experts, weight.rows, weight.cols };
	uint64_t n_scales = unit_matrices(unit) * tile_count(weight.rows, spec->tile.rows) *
			    tile_count(unit->cols, spec->tile.cols);
	struct scale_decl scale;

	plan_add(plan, u,
		 &(struct output_decl){ .kind = plan->units[u].same_codes ? OUTPUT_COPY
									  : OUTPUT_CODES,
					.name = unit->name,
					.dtype = dtype_of_fp8(spec->format),
					.n_dims = weight.experts ? 3 : 2,
					.shape = weight.experts ? shape : shape + 1 });
	plan->totals.n_converted++;
	if (unit->table) { /* the first part brings the scale of all */
		if (plan->groups[unit->scale_group].first == u) {
			format_table_scale(unit->name, &scale);
			plan_add_scale(plan, u, OUTPUT_SCALE, NULL, &scale);
		}
		return 0;
	}
	format_scale(plan->format, &scheme, plan->target, &weight, &scale);
	if (unit_scale(plan, u, &scale, err))
		return -1;
	if (unit->static_input) {
		struct scale_decl input;

		format_input_scale(plan->format, &scheme, plan->target, unit->name, &input);
		plan_add_scale(plan, u, OUTPUT_VALUE, NULL, &input)->value =
			plan->units[u].input_scale_inv;
	}
	if (st_n_elements(scale.shape, scale.n_dims) != n_scales ||
	    dtype_bits(scale.dtype) / 8 != scale_size(spec->scale_type))
		return err_set(err, ERR_USAGE,
			       "format '%s' cannot hold the %" PRIu64 " scales of tensor '%s'",
			       plan->format->name, n_scales, unit->name);
	return 0;
}

/* Adds the source of a quantized unit to the preserved shard, once for all units of that source. */
static void unit_preserve(struct plan *plan, size_t u)
{
	const struct tensor_ref *ref = plan->selection.units[u].source;
	struct output_shard *shard = &plan->preserved[ref->shard];

	if (u == 0 || plan->selection.units[u - 1].source != ref ||
	    !plan->selection.units[u - 1].recipe)
		output_shard_add(shard, ref->tensor);
	plan->units[u].preserved = (uint32_t)(shard->n_tensors - 1);
}

int quantize_outputs(struct plan *plan, bool preserve, struct err *err)
{
	size_t cache = 0;

	if (plan->caches.n && !plan->format->kv_scale)
		return format_refuse_kv(plan->format, err);
	plan_begin(plan, plan->selection.n_units, preserve);
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
