/* SPDX-License-Identifier: Apache-2.0 */
#include "quantizer/quantizer.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"

void quantized_tensor_release(struct quantized_tensor *t)
{
	free(t->rowwise.codes);
	free(t->rowwise.scale_inv);
	free(t->columnwise.codes);
	free(t->columnwise.scale_inv);
	*t = (struct quantized_tensor){ 0 };
}

void quantized_tensor_dequantize(const struct quantized_tensor *t, const struct backend *backend,
				 enum dtype dtype, void *y, size_t y_stride)
{
	struct quant_in q = { .codes = t->rowwise.codes,
			      .rows = t->rows,
			      .cols = t->cols,
			      .stride = t->cols,
			      .format = t->spec.format,
			      .tile = t->spec.tile,
			      .scale_type = t->spec.scale_type,
			      .scale_inv = t->rowwise.scale_inv,
			      .scale_stride = t->rowwise.grid.row_stride };

	assert(t->rowwise.codes && t->rowwise.grid.col_stride == 1 && !t->rowwise.grid.swizzled);
	backend_dequantize(backend, &q, dtype, y, y_stride);
}

/* Returns a * b * size, or on overflow a size that malloc() refuses. */
static uint64_t bytes(size_t a, size_t b, size_t size)
{
	uint64_t n;

	if (__builtin_mul_overflow(a, b, &n) || __builtin_mul_overflow(n, size, &n))
		return UINT64_MAX;
	return n;
}

/* Allocates one copy of (rows, cols), as quantized. */
static int copy_init(struct fp8_copy *copy, const struct quantizer *q, size_t rows, size_t cols,
		     bool columnwise, struct err *err)
{
	const struct qspec *spec = &q->spec;
	bool transposed = columnwise && spec->scale_type != SCALE_E8M0;
	uint64_t n_scale_bytes;
	void *codes;

	copy->grid = scale_grid_of(spec, rows, cols, columnwise, q->order);
	copy->row_stride = columnwise && !transposed ? 1 : cols;
	copy->col_stride = columnwise && !transposed ? rows : 1;
	n_scale_bytes = bytes(copy->grid.rows, copy->grid.cols, scale_size(spec->scale_type));
	if (buffer_alloc(&codes, bytes(rows, cols, 1), "a matrix in FP8", err))
		return -1;
	copy->codes = codes;
	if (buffer_alloc(&copy->scale_inv, n_scale_bytes, "the scales of a matrix in FP8", err))
		return -1;
	memset(copy->scale_inv, 0, n_scale_bytes);
	return 0;
}

int quantizer_make_empty(const struct quantizer *q, size_t rows, size_t cols,
			 struct quantized_tensor *t, struct err *err)
{
	*t = (struct quantized_tensor){ .rows = rows, .cols = cols, .spec = q->spec };
	if ((q->rowwise && copy_init(&t->rowwise, q, rows, cols, false, err)) ||
	    (q->columnwise && copy_init(&t->columnwise, q, cols, rows, true, err))) {
		quantized_tensor_release(t);
		return -1;
	}
	return 0;
}

struct fp8_out quantizer_out(const struct quantizer *q, const struct quantized_tensor *t,
			     struct quant_stats *stats)
{
	return (struct fp8_out){ .rowwise = t->rowwise,
				 .columnwise = t->columnwise,
				 .scale = q->scale,
				 .amax = q->amax,
				 .stats = stats };
}

/* Quantizes in the layout of checkpoints, for which backends have vector code. */
static void quantize_plain(const struct quantizer *q, const struct backend *backend,
			   const struct matrix *x, struct quantized_tensor *t,
			   struct quant_stats *stats)
{
	struct quant_out out = { .codes = t->rowwise.codes,
				 .stride = t->cols,
				 .scale_inv = t->rowwise.scale_inv,
				 .scale_stride = t->rowwise.grid.cols,
				 .stats = stats };
	struct qspec given = q->spec;
	uint64_t counted_by_cast = 0;

	if (q->scale) {
		given.arith = ARITH_GIVEN;
		given.pow2 = false;
		quantizer_calibrate(q, backend, x, &counted_by_cast);
	}
	backend_cast(backend, x, &given, q->scale, 1, &out);
}

void quantizer_quantize(const struct quantizer *q, const struct backend *backend,
			const struct matrix *x, struct quantized_tensor *t,
			struct quant_stats *stats)
{
	struct fp8_out out = quantizer_out(q, t, stats);

	assert(x->rows == t->rows && x->cols == t->cols);
	if (q->rowwise && !q->columnwise && q->order == SCALES_COMPACT)
		quantize_plain(q, backend, x, t, stats);
	else
		backend_cast_transpose(backend, x, &q->spec, &out);
}

void quantizer_calibrate(const struct quantizer *q, const struct backend *backend,
			 const struct matrix *x, uint64_t *n_nonfinite)
{
	if (q->amax)
		backend_amax(backend, x, (struct tile){ WHOLE, WHOLE }, q->amax, 1, n_nonfinite);
}
