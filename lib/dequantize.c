/* SPDX-License-Identifier: Apache-2.0
 *
 * Dequantizing.  The scales are copied to the tile grid where they lie otherwise; then bands of
 * whole tiles go to the backend.  Codes of a transpose are decoded to a panel, and the panel is
 * transposed.
 */

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/transpose.h"
#include "lib/device.h"
#include "lib/quantize.h"
#include "num/float16.h"

#define PANEL_ROWS ((size_t)128)

struct job {
	struct fp8conv_context *context;
	struct stack codes, y;
	struct qspec spec; /* format, tile, scale_type: of the codes as they lie */
	struct scale_grid grid;
	/* (matrices, grid) of the codes as they lie */
	const unsigned char *scales;
	size_t scale_stride, scale_next; /* scales in a row, bytes in a matrix */
	void *gathered;			 /* scales, where they lie otherwise; or NULL */
	bool transposed;
	bool scattered; /* on a device, scales that lie otherwise: */
	struct scale_grid lie;
	enum dtype scale_dtype;
	bool along;
	size_t band, n_bands; /* rows of codes; bands of a matrix */
};

/* Returns element i of scales as fp32. */
static float scale_at(const struct stack *scales, const void *data, size_t i)
{
	uint16_t half;

	if (scales->dtype == DT_F32)
		return scale_grid_at(data, SCALE_F32, i);
	memcpy(&half, (const char *)data + 2 * i, 2);
	return scales->dtype == DT_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

/* Copies the scales of all matrices to the grid of codes: (n_rows, n_cols), which for columnwise
 * E8M0 is the transpose of the grid of the copy. */
static int scales_gather(struct job *job, const struct stack *scales, const struct scale_grid *from,
			 bool along, struct err *err)
{
	size_t n_rows = job->grid.rows, n_cols = job->grid.cols;

	job->scale_stride = n_cols;
	job->scale_next = n_rows * n_cols * scale_size(job->spec.scale_type);
	if (buffer_alloc(&job->gathered, scales->n * job->scale_next, "the scales of a matrix",
			 err))
		return -1;
	job->scales = job->gathered;
	for (size_t m = 0; m < scales->n; m++) {
		const unsigned char *data = stack_at(scales, m, 0);

		for (size_t i = 0; i < n_rows; i++)
			for (size_t j = 0; j < n_cols; j++) {
				size_t at =
					along ? scale_index(from, j, i) : scale_index(from, i, j);
				size_t to = (m * n_rows + i) * n_cols + j;

				if (job->spec.scale_type == SCALE_E8M0)
					((uint8_t *)job->gathered)[to] = data[at];
				else
					((float *)job->gathered)[to] = scale_at(scales, data, at);
			}
	}
	return 0;
}

static int scales_read(struct job *job, const struct fp8conv_quantized *q, bool columnwise,
		       struct err *err)
{
	const char *name = columnwise ? "columnwise_scale_inv" : "rowwise_scale_inv";
	bool along = columnwise && !job->transposed;
	size_t rows = along ? job->codes.cols : job->codes.rows,
	       cols = along ? job->codes.rows : job->codes.cols;
	struct stack wanted = { .n = job->codes.n, .device = job->codes.device }, scales;
	struct scale_grid from =
		scale_grid_of(&job->spec, rows, cols, columnwise, (enum scale_order)q->layout);

	if (tensor_read_anywhere(columnwise ? q->columnwise_scale_inv : q->rowwise_scale_inv, name,
				 &scales, err))
		return -1;
	wanted.dtype = scales.dtype;
	wanted.rows = from.rows;
	wanted.cols = from.cols;
	if (tensor_read_as(columnwise ? q->columnwise_scale_inv : q->rowwise_scale_inv, name,
			   &wanted, &scales, err))
		return -1;
	if (from.swizzled && scales.stride != from.cols)
		return err_set(err, ERR_USAGE, "%s is swizzled and not contiguous", name);
	if (from.row_stride == 1 && from.cols > 1)
		from.col_stride = scales.stride;
	else
		from.row_stride = scales.stride;
	if (along)
		job->spec.tile = (struct tile){ job->spec.tile.cols, job->spec.tile.rows };
	job->grid = scale_row_major(tile_count(job->codes.rows, job->spec.tile.rows),
				    tile_count(job->codes.cols, job->spec.tile.cols));
	job->scales = scales.data;
	job->scale_stride = scales.stride;
	job->scale_next = scales.next;
	job->lie = from;
	job->scale_dtype = scales.dtype;
	job->along = along;
	if (!along && from.col_stride == 1 && !from.swizzled &&
	    (scales.dtype == DT_F32 || scales.dtype == DT_F8_E8M0))
		return 0;
	job->scattered = job->codes.device != FP8CONV_CPU;
	if (job->scattered)
		return 0;
	return scales_gather(job, &scales, &from, along, err);
}

/* Sets the spec from the blocks and the types of the tensors. */
static int spec_read(struct job *job, const struct fp8conv_quantized *q, int scale_dtype,
		     struct err *err)
{
	job->spec.tile = (struct tile){ q->block_rows, q->block_columns };
	job->spec.scale_type = scale_dtype == FP8CONV_E8M0 ? SCALE_E8M0 : SCALE_F32;
	job->spec.format = job->codes.dtype == DT_F8_E4M3 ? FP8_E4M3 : FP8_E5M2;
	if (!dtype_is_fp8(job->codes.dtype))
		return err_set(err, ERR_USAGE,
			       "the codes have elements of %s, expected F8_E4M3 or "
			       "F8_E5M2",
			       dtype_name(job->codes.dtype));
	if (scale_dtype == FP8CONV_E4M3 || scale_dtype == FP8CONV_E5M2)
		return err_set(err, ERR_USAGE,
			       "the scales have elements of FP8, expected F32, BF16, F16 or E8M0");
	return 0;
}

static int job_read(struct job *job, const struct fp8conv_quantized *q,
		    const struct fp8conv_tensor *y, struct err *err)
{
	bool columnwise;
	const struct fp8conv_tensor *scales;
	struct stack wanted;

	if (size_check(q, sizeof *q, "q", err) ||
	    word_check(q->layout, SCALES_GEMM + 1, "layout", err))
		return -1;
	columnwise = !q->rowwise;
	scales = columnwise ? q->columnwise_scale_inv : q->rowwise_scale_inv;
	if (tensor_read_anywhere(columnwise ? q->columnwise : q->rowwise,
				 columnwise ? "columnwise" : "rowwise", &job->codes, err) ||
	    size_check(scales, sizeof *scales, "scale_inv", err) ||
	    spec_read(job, q, scales->dtype, err) || tensor_read_anywhere(y, "y", &job->y, err) ||
	    stack_check_float(&job->y, "y", err))
		return -1;
	job->transposed = columnwise && job->spec.scale_type == SCALE_F32;
	wanted = job->y;
	wanted.rows = job->transposed ? job->codes.cols : job->codes.rows;
	wanted.cols = job->transposed ? job->codes.rows : job->codes.cols;
	wanted.n = job->codes.n;
	wanted.device = job->codes.device;
	if (tensor_read_as(y, "y", &wanted, &job->y, err))
		return -1;
	return scales_read(job, q, columnwise, err);
}

static int dequantize_band(void *context, int worker, size_t item, struct err *err)
{
	struct job *job = context;
	const struct backend *backend = job->context->backend;
	size_t m = item / job->n_bands, first = item % job->n_bands * job->band;
	size_t n = job->codes.rows - first < job->band ? job->codes.rows - first : job->band;
	size_t grid_row = job->spec.tile.rows == WHOLE ? 0 : first / job->spec.tile.rows;
	struct quant_in in = { .codes = stack_at(&job->codes, m, first),
			       .rows = n,
			       .cols = job->codes.cols,
			       .stride = job->codes.stride,
			       .format = job->spec.format,
			       .tile = job->spec.tile,
			       .scale_type = job->spec.scale_type,
			       .scale_stride = job->scale_stride };
	size_t size = dtype_bits(job->y.dtype) / 8;
	void *panel = NULL;

	(void)worker;
	in.scale_inv = job->scales + m * job->scale_next +
		       grid_row * job->scale_stride * scale_size(job->spec.scale_type);
	if (!job->transposed) {
		backend_dequantize(backend, &in, job->y.dtype, stack_at(&job->y, m, first),
				   job->y.stride);
		return backend_failed(backend, "y", err);
	}
	if (buffer_alloc(&panel, (uint64_t)n * in.cols * size, "a panel of the transpose", err))
		return -1;
	backend_dequantize(backend, &in, job->y.dtype, panel, in.cols);
	transpose(&(struct transpose){ .from = panel,
				       .from_stride = in.cols,
				       .to = (char *)stack_at(&job->y, m, 0) + first * size,
				       .to_stride = job->y.stride,
				       .rows = n,
				       .cols = in.cols,
				       .element = size });
	free(panel);
	return backend_failed(backend, "y", err);
}

/* On the device of the codes: a launch for each matrix, or for all. */
static int dequantize_in_place(struct job *job, const struct fp8conv_quantized *q, struct err *err)
{
	size_t tile_rows = job->spec.tile.rows, size = scale_size(job->spec.scale_type);
	bool by_rows = !job->scattered && !job->transposed;
	bool one = by_rows && tile_rows != WHOLE && job->codes.rows % tile_rows == 0 &&
		   stack_is_one(&job->codes) && stack_is_one(&job->y) &&
		   job->scale_next == job->grid.rows * job->scale_stride * size;
	size_t n = one ? 1 : job->codes.n;
	struct device_work work;

	if (device_work_begin(job->context, q->rowwise ? q->rowwise : q->columnwise,
			      q->rowwise ? "rowwise" : "columnwise", &work, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		const struct quant_in in = { .codes = stack_at(&job->codes, i, 0),
					     .rows = job->codes.rows * job->codes.n / n,
					     .cols = job->codes.cols,
					     .stride = job->codes.stride,
					     .format = job->spec.format,
					     .tile = job->spec.tile,
					     .scale_type = job->spec.scale_type,
					     .scale_inv = job->scales + i * job->scale_next,
					     .scale_stride = job->scale_stride };

		const struct fp8_scattered from = { in, job->lie, job->scale_dtype, job->along,
						    job->transposed };
		void *y = stack_at(&job->y, i, 0);

		if (by_rows)
			work.ops->dequantize(work.queue, &in, job->y.dtype, y, job->y.stride);
		else
			work.ops->dequantize_scattered(work.queue, &from, job->y.dtype, y,
						       job->y.stride);
	}
	return device_work_end(&work, 0, err);
}

int dequantize_stack(struct fp8conv_context *context, const struct fp8conv_quantized *q,
		     const struct fp8conv_tensor *y, struct err *err)
{
	struct job job = { .context = context };
	int rc = job_read(&job, q, y, err);

	if (!rc && job.codes.device != FP8CONV_CPU) {
		rc = job.codes.rows && job.codes.cols ? dequantize_in_place(&job, q, err) : 0;
	} else if (!rc && job.codes.rows && job.codes.cols) {
		job.band = job.transposed
				   ? round_up(PANEL_ROWS,
					      job.spec.tile.rows == WHOLE ? 1 : job.spec.tile.rows)
				   : band_rows(context, job.spec.tile.rows, job.codes.cols);
		job.n_bands = tile_count(job.codes.rows, job.band);
		rc = pool_run(stack_threads(context, &job.y), job.codes.n * job.n_bands,
			      dequantize_band, &job, NULL, err);
	}
	free(job.gathered);
	return rc;
}
