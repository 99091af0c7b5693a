/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/engine_cast.h"

#include <stdlib.h>

#include "backend/dispatch.h"
#include "recipe/recipe.h"

void engine_casts_init(struct engine_casts *casts, const struct backend *backend, int n_lanes)
{
	*casts = (struct engine_casts){ .backend = backend, .n_lanes = n_lanes };
	casts->lanes = xcalloc((size_t)n_lanes, sizeof *casts->lanes);
}

void cast_lane_release(struct cast_lane *lane)
{
	buffer_release(&lane->codes);
	buffer_release(&lane->scales);
	buffer_release(&lane->values);
}

void engine_casts_release(struct engine_casts *casts)
{
	for (int i = 0; i < casts->n_lanes; i++)
		cast_lane_release(&casts->lanes[i]);
	free(casts->lanes);
	free(casts->list);
	*casts = (struct engine_casts){ 0 };
}

void engine_cast_dynamic(struct engine_cast *cast, enum granularity granularity,
			 enum fp8_format format, size_t cols, bool pow2, enum mx_rule mx_rule)
{
	*cast = (struct engine_cast){ .spec = recipe_of_scheme(granularity, false)->input };
	cast->spec.format = format;
	cast->spec.mx_rule = mx_rule;
	if (granularity != GRANULARITY_BLOCK)
		return;
	cast->spec.tile.cols = cols;
	cast->spec.pow2 = pow2;
}

void engine_cast_static(struct engine_cast *cast, float scale_inv)
{
	cast->scale_inv = scale_inv;
	cast->spec.tile = (struct tile){ WHOLE, WHOLE };
	cast->spec.arith = ARITH_GIVEN;
	cast->spec.pow2 = false;
}

/* Matrices that share an input are near each other. */
#define NEAR_CASTS 16

size_t engine_casts_add(struct engine_casts *casts, const struct engine_cast *cast)
{
	for (size_t i = casts->n; i-- > 0 && casts->n - i <= NEAR_CASTS;)
		if (qspec_equal(&casts->list[i].spec, &cast->spec) &&
		    casts->list[i].scale_inv == cast->scale_inv)
			return i;
	ARRAY_GROW(casts->list, casts->n);
	casts->list[casts->n] = *cast;
	return casts->n++;
}

int cast_lane_run(struct cast_lane *lane, const struct backend *backend,
		  const struct cast_request *request, const float **values, struct err *err)
{
	static const char what[] = "values in FP8";
	const struct matrix *x = request->x;
	const struct qspec *spec = request->spec;
	size_t cols = tile_count(x->cols, spec->tile.cols);
	uint64_t n = (uint64_t)x->rows * x->cols;
	uint64_t n_scales = tile_count(x->rows, spec->tile.rows) * cols;
	struct quant_stats stats = { 0 };
	struct quant_out out;
	struct quant_in in;

	if (buffer_ensure(&lane->codes, n, what, err) ||
	    buffer_ensure(&lane->scales, n_scales * sizeof(float), what, err) ||
	    buffer_ensure(&lane->values, n * sizeof(float), what, err))
		return -1;
	out = (struct quant_out){ .codes = lane->codes.data,
				  .stride = x->cols,
				  .scale_inv = lane->scales.data,
				  .scale_stride = cols,
				  .stats = &stats };
	in = (struct quant_in){ .codes = lane->codes.data,
				.rows = x->rows,
				.cols = x->cols,
				.stride = x->cols,
				.format = spec->format,
				.tile = spec->tile,
				.scale_type = spec->scale_type,
				.scale_inv = request->scale_inv ? (const void *)request->scale_inv
								: lane->scales.data,
				.scale_stride = cols };
	if (request->amax)
		backend_cast(backend, x, spec, request->amax, 1, &out);
	else
		backend_quantize(backend, x, spec, &out);
	backend_dequantize(backend, &in, DT_F32, lane->values.data, x->cols);
	*values = lane->values.data;
	lane->counts.saturated += stats.saturated;
	return backend_failed(backend, request->name, err);
}

/* Returns how many values became zero and were none. */
static uint64_t count_zeros(const float *x, const float *cast, uint64_t n)
{
	uint64_t zeros = 0;

	for (uint64_t i = 0; i < n; i++)
		zeros += cast[i] == 0 && x[i] != 0;
	return zeros;
}

/* Casts x by the cast that is the matrix's module. */
static int apply(void *context, const struct filter_input *from, const float **values,
		 struct err *err)
{
	struct engine_casts *casts = context;
	const struct engine_cast *cast = from->linear->module;
	struct cast_lane *lane = &casts->lanes[from->worker];
	size_t k = from->linear->ref->k;
	const struct matrix x = { from->x, DT_F32, from->m, k, k };
	float scale = 1 / cast->scale_inv;
	bool is_static = cast->scale_inv > 0;
	const struct cast_request request = { .x = &x,
					      .spec = &cast->spec,
					      .amax = is_static ? &scale : NULL,
					      .scale_inv = is_static ? &cast->scale_inv : NULL,
					      .name = from->linear->ref->module };

	if (cast_lane_run(lane, casts->backend, &request, values, err))
		return -1;
	lane->counts.n += (uint64_t)from->m * k;
	lane->counts.zeros += count_zeros(from->x, *values, (uint64_t)from->m * k);
	return 0;
}

struct input_filter engine_casts_filter(struct engine_casts *casts)
{
	return (struct input_filter){ casts, apply };
}
