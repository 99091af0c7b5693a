/* SPDX-License-Identifier: Apache-2.0
 *
 * From the elements that an operation computes to the codes and scale_inv of their copies.  A
 * columnwise copy is the transpose, quantized along its rows: blocks of one row are then quantized
 * from the elements of a column.  Square tiles, and whole tensors, give the same codes and scales
 * as in the rowwise copy.
 */
#include "kernels/cpu/cast/cast_transpose.h"

#include "backend/matrix.h"
#include "kernels/cpu/cast/tile_span.h"
#include "num/history.h"

/* A source, or its transpose. */
struct copy_view {
	const struct cast_transpose_source *source;
	bool transposed;
	size_t rows, cols;
};

static float view_at(const struct copy_view *v, size_t row, size_t col)
{
	return v->transposed ? v->source->at(v->source->args, col, row)
			     : v->source->at(v->source->args, row, col);
}

static float view_amax(const struct copy_view *v, struct tile_span s)
{
	float amax = 0;

	for (size_t row = s.row; row < s.row_end; row++) {
		for (size_t col = s.col; col < s.col_end; col++) {
			float magnitude = f32_abs(view_at(v, row, col));

			if (magnitude > amax) /* false for NaN */
				amax = magnitude;
		}
	}
	return amax;
}

static void cast_view(const struct copy_view *v, struct tile_span s, enum fp8_format format,
		      struct scaling scaling, const struct fp8_copy *copy,
		      struct quant_stats *stats)
{
	for (size_t row = s.row; row < s.row_end; row++) {
		for (size_t col = s.col; col < s.col_end; col++)
			copy->codes[row * copy->row_stride + col * copy->col_stride] =
				cast_counted(format, scaling, view_at(v, row, col), stats);
	}
}

/* Writes a copy.  given: the scale, or NULL to compute that of each tile. */
static void copy_write(const struct copy_view *v, const struct qspec *spec, const float *given,
		       const struct fp8_copy *copy, struct quant_stats *stats)
{
	float limit = scale_limit(v->source->dtype, spec->tile);

	for (size_t i = 0; i < tile_count(v->rows, spec->tile.rows); i++) {
		for (size_t j = 0; j < tile_count(v->cols, spec->tile.cols); j++) {
			struct tile_span s = tile_span(spec->tile, v->rows, v->cols, i, j);
			struct scaling scaling =
				given ? scaling_given(*given)
				      : scaling_from_amax(spec, view_amax(v, s), limit);

			cast_view(v, s, spec->format, scaling, copy, stats);
			scale_inv_store(copy->scale_inv, spec->scale_type,
					scale_index(&copy->grid, i, j), scaling);
		}
	}
}

void cast_transpose_write(const struct cast_transpose_source *source, const struct qspec *spec,
			  const struct fp8_out *out)
{
	struct copy_view rowwise = { source, false, source->rows, source->cols };
	struct copy_view columnwise = { source, true, source->cols, source->rows };
	struct tile_span all = { 0, source->rows, 0, source->cols };

	if (out->amax)
		*out->amax = amax_max(*out->amax, view_amax(&rowwise, all));
	if (out->rowwise.codes)
		copy_write(&rowwise, spec, out->scale, &out->rowwise, out->stats);
	if (out->columnwise.codes)
		copy_write(&columnwise, spec, out->scale, &out->columnwise,
			   out->rowwise.codes ? NULL : out->stats);
}

static float cast_at(const void *args, size_t row, size_t col)
{
	return matrix_at(args, row, col);
}

void cpu_cast_transpose(const struct matrix *x, const struct qspec *spec, const struct fp8_out *out)
{
	struct cast_transpose_source source = { cast_at, x, x->rows, x->cols, x->dtype };

	cast_transpose_write(&source, spec, out);
}

/* Supports every spec: products take the codes' fp32 values. */
int cpu_supports(const struct qspec *spec, struct err *err)
{
	(void)spec, (void)err;
	return 0;
}

int cpu_failed(struct err *err)
{
	(void)err;
	return 0;
}
