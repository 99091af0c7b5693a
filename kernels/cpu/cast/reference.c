/* SPDX-License-Identifier: Apache-2.0
 *
 * The scalar reference: the specification that every other backend equals byte for byte.  One loop
 * over tiles serves all recipes, from 1x32 blocks to whole tensors, with the arithmetic of src/num.
 * Written for reading, not for speed.
 */
#include "backend/matrix.h"
#include "kernels/cpu/cast/cast_transpose.h"
#include "kernels/cpu/cast/tile_span.h"

#include <string.h>

static float span_amax(const struct matrix *x, struct tile_span s, uint64_t *n_nonfinite)
{
	float amax = 0;

	for (size_t row = s.row; row < s.row_end; row++) {
		for (size_t col = s.col; col < s.col_end; col++) {
			float magnitude = f32_abs(matrix_at(x, row, col));

			if (magnitude > amax) /* false for NaN */
				amax = magnitude;
			*n_nonfinite += f32_bits(magnitude) >= F32_INF;
		}
	}
	return amax;
}

static void reference_amax(const struct matrix *x, struct tile tile, float *amax,
			   size_t amax_stride, uint64_t *n_nonfinite)
{
	for (size_t i = 0; i < tile_count(x->rows, tile.rows); i++) {
		for (size_t j = 0; j < tile_count(x->cols, tile.cols); j++) {
			struct tile_span s = tile_span(tile, x->rows, x->cols, i, j);
			float found = span_amax(x, s, n_nonfinite);

			if (found > amax[i * amax_stride + j])
				amax[i * amax_stride + j] = found;
		}
	}
}

static void span_cast(const struct matrix *x, struct tile_span s, const struct qspec *spec,
		      struct scaling scaling, const struct quant_out *out)
{
	for (size_t row = s.row; row < s.row_end; row++) {
		for (size_t col = s.col; col < s.col_end; col++) {
			out->codes[row * out->stride + col] = cast_counted(
				spec->format, scaling, matrix_at(x, row, col), out->stats);
		}
	}
}

/* amax: of each tile; NULL: computes it here. */
static void reference_cast(const struct matrix *x, const struct qspec *spec, const float *amax,
			   size_t amax_stride, const struct quant_out *out)
{
	float limit = scale_limit(x->dtype, spec->tile);
	uint64_t counted_by_cast = 0;

	for (size_t i = 0; i < tile_count(x->rows, spec->tile.rows); i++) {
		for (size_t j = 0; j < tile_count(x->cols, spec->tile.cols); j++) {
			struct tile_span s = tile_span(spec->tile, x->rows, x->cols, i, j);
			float of_tile = amax ? amax[i * amax_stride + j]
					     : span_amax(x, s, &counted_by_cast);
			struct scaling scaling = scaling_from_amax(spec, of_tile, limit);

			span_cast(x, s, spec, scaling, out);
			scale_inv_store(out->scale_inv, spec->scale_type, i * out->scale_stride + j,
					scaling);
		}
	}
}

static void element_store(void *y, enum dtype dtype, size_t i, float v)
{
	uint16_t half;

	if (f32_is_nan(v))
		v = f32_from_bits(F32_NAN);
	if (dtype == DT_F32) {
		memcpy((char *)y + 4 * i, &v, 4);
		return;
	}
	half = dtype == DT_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
	memcpy((char *)y + 2 * i, &half, 2);
}

static void span_dequantize(const struct quant_in *q, struct tile_span s, float scale_inv,
			    enum dtype dtype, void *y, size_t y_stride)
{
	for (size_t row = s.row; row < s.row_end; row++) {
		for (size_t col = s.col; col < s.col_end; col++) {
			float code = fp8_to_f32(q->format, q->codes[row * q->stride + col]);

			element_store(y, dtype, row * y_stride + col, code * scale_inv);
		}
	}
}

static void reference_dequantize(const struct quant_in *q, enum dtype dtype, void *y,
				 size_t y_stride)
{
	for (size_t i = 0; i < tile_count(q->rows, q->tile.rows); i++) {
		for (size_t j = 0; j < tile_count(q->cols, q->tile.cols); j++) {
			struct tile_span s = tile_span(q->tile, q->rows, q->cols, i, j);

			span_dequantize(
				q, s,
				scale_grid_at(q->scale_inv, q->scale_type, i * q->scale_stride + j),
				dtype, y, y_stride);
		}
	}
}

static void span_error(const struct matrix *x, const struct quant_in *q, struct tile_span s,
		       float scale_inv, struct error_stats *stats)
{
	for (size_t row = s.row; row < s.row_end; row++) {
		for (size_t col = s.col; col < s.col_end; col++) {
			float v = matrix_at(x, row, col);
			float back =
				fp8_to_f32(q->format, q->codes[row * q->stride + col]) * scale_inv;

			if (f32_magnitude(v) >= F32_INF)
				continue;
			stats->signal += (double)v * v;
			stats->noise += ((double)v - back) * ((double)v - back);
		}
	}
}

void cpu_error(const struct matrix *x, const struct quant_in *q, struct error_stats *stats)
{
	for (size_t i = 0; i < tile_count(q->rows, q->tile.rows); i++) {
		for (size_t j = 0; j < tile_count(q->cols, q->tile.cols); j++) {
			struct tile_span s = tile_span(q->tile, q->rows, q->cols, i, j);

			span_error(
				x, q, s,
				scale_grid_at(q->scale_inv, q->scale_type, i * q->scale_stride + j),
				stats);
		}
	}
}

static const char *reference_unusable(void)
{
	return NULL;
}

const struct backend backend_reference = {
	.name = "reference",
	.summary = "the scalar specification, any CPU",
	.rank = 1,
	.unusable = reference_unusable,
	.amax = reference_amax,
	.cast = reference_cast,
	.dequantize = reference_dequantize,
	.error = cpu_error,
	CPU_CAST_TRANSPOSE,
};
