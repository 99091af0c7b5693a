/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend: copies matrices of the host to the GPU, runs an operation there, and copies the
 * results back.  The calling thread waits; other threads copy and compute meanwhile, each in its
 * own stream.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/backend.h"
}

#include <stdlib.h>
#include <string.h>

#include <gpu.h>

#include "kernels/gpu/gemm.h"
#include "num/history.h"
#include "num/scale_grid.h"
#include "kernels/gpu/cast/cast.h"

/* Rows in the memory of the GPU begin at a multiple of this many elements, which is a multiple of
 * 16 bytes for every type. */
#define ROW_ALIGN 16

static size_t dtype_size(enum dtype dtype)
{
	return dtype == DT_F32 ? 4 : 2;
}

/* Copies x to the GPU, with aligned rows; data NULL stays NULL. */
static struct matrix matrix_in(struct device_stream *stream, const struct matrix *x)
{
	struct matrix there = *x;
	size_t size = dtype_size(x->dtype);

	if (!x->data)
		return there;
	there.stride = round_up(x->cols, ROW_ALIGN);
	there.data = device_take(stream, x->rows * there.stride * size);
	const struct device_copy copy = { .to = const_cast<void *>(there.data),
					  .to_stride = there.stride * size,
					  .from = x->data,
					  .from_stride = x->stride * size,
					  .row_size = x->cols * size,
					  .n_rows = x->rows };
	device_copy_in(stream, &copy);
	return there;
}

static void *bytes_in(struct device_stream *stream, const void *from, size_t n)
{
	void *there = device_take(stream, n);

	device_bytes_in(stream, there, from, n);
	return there;
}

static void bytes_out(struct device_stream *stream, void *to, const void *from, size_t n)
{
	device_bytes_out(stream, to, from, n);
}

static unsigned long long *counts_new(struct device_stream *stream)
{
	unsigned long long *counts =
		static_cast<unsigned long long *>(device_take(stream, N_COUNTS * sizeof *counts));

	device_zero(stream, counts, N_COUNTS * sizeof *counts);
	return counts;
}

/* Ends an operation: copies its counts, and waits for all copies to the host. */
static void counts_out(struct device_stream *stream, const unsigned long long *there,
		       struct quant_stats *stats)
{
	unsigned long long counts[N_COUNTS] = { 0 };

	bytes_out(stream, counts, there, sizeof counts);
	device_wait(stream);
	if (device_stream_stopped(stream))
		return;
	stats->nonfinite += counts[0];
	stats->saturated += counts[1];
}

static struct device_stream *stream_begin(void)
{
	struct device_stream *stream = device_stream_here();

	device_begin(stream);
	return stream;
}

/* Calls run(stream, first, n) for all rows, in multiples of `step`: for all at once, or if the GPU
 * lacks memory for that, for half as many at a time. */
template <typename Run> static void by_bands(size_t rows, size_t step, const Run &run)
{
	struct device_stream *stream = device_stream_here();
	size_t most = rows;

	for (size_t first = 0; first < rows;) {
		size_t n = most < rows - first ? most : rows - first;

		device_begin(stream);
		run(stream, first, n);
		if (!device_stream_stopped(stream))
			first += n;
		else if (n > step && device_stream_retry(stream))
			most = round_up(n / 2, step);
		else
			return;
	}
}

static struct matrix matrix_rows(const struct matrix *x, size_t first, size_t n)
{
	struct matrix rows = *x;

	rows.data = static_cast<const char *>(x->data) + first * x->stride * dtype_size(x->dtype);
	rows.rows = n;
	return rows;
}

/* Returns the row in the grid of the tiles that begin at a row. */
static size_t grid_row(struct tile tile, size_t row)
{
	return tile.rows == WHOLE ? 0 : row / tile.rows;
}

static void amax_band(struct device_stream *stream, const struct matrix *x, struct tile tile,
		      float *amax, size_t amax_stride, uint64_t *n_nonfinite)
{
	size_t n_rows = tile_count(x->rows, tile.rows),
	       row_size = tile_count(x->cols, tile.cols) * sizeof *amax;
	struct quant_stats stats = { 0, 0 };
	unsigned long long *counts;
	struct matrix there;
	float *found;

	if (n_rows == 0 || row_size == 0)
		return;
	there = matrix_in(stream, x);
	found = static_cast<float *>(device_take(stream, n_rows * row_size));
	counts = counts_new(stream);
	const struct device_copy in = { found,	  row_size, amax, amax_stride * sizeof *amax,
					row_size, n_rows };
	const struct device_copy out = { amax,	   amax_stride * sizeof *amax,
					 found,	   row_size,
					 row_size, n_rows };

	device_copy_in(stream, &in);
	if (device_stream_stopped(stream))
		return;
	gpu_tile_amax(stream, &there, tile, false, found, counts);
	device_copy_out(stream, &out);
	counts_out(stream, counts, &stats);
	*n_nonfinite += stats.nonfinite;
}

static void run_amax(const struct matrix *x, struct tile tile, float *amax, size_t amax_stride,
		     uint64_t *n_nonfinite)
{
	by_bands(x->rows, tile.rows == WHOLE ? 1 : tile.rows,
		 [&](struct device_stream *stream, size_t first, size_t n) {
			 const struct matrix band = matrix_rows(x, first, n);

			 amax_band(stream, &band, tile, amax + grid_row(tile, first) * amax_stride,
				   amax_stride, n_nonfinite);
		 });
}

/* amax: as in cast(), or NULL. */
static void quantize_band(struct device_stream *stream, const struct matrix *x,
			  const struct qspec *spec, const float *amax, size_t amax_stride,
			  const struct quant_out *out)
{
	size_t n_rows = tile_count(x->rows, spec->tile.rows),
	       n_cols = tile_count(x->cols, spec->tile.cols);
	size_t size = scale_size(spec->scale_type);
	struct fp8_out there = {};
	unsigned long long *counts;
	float *known = NULL;
	struct matrix in;

	if (n_rows == 0 || n_cols == 0)
		return;
	in = matrix_in(stream, x);
	there.rowwise.row_stride = round_up(x->cols, ROW_ALIGN);
	there.rowwise.col_stride = 1;
	there.rowwise.codes =
		static_cast<uint8_t *>(device_take(stream, x->rows * there.rowwise.row_stride));
	there.rowwise.scale_inv = device_take(stream, n_rows * n_cols * size);
	there.rowwise.grid = scale_row_major(n_rows, n_cols);
	counts = counts_new(stream);
	if (amax) {
		known = static_cast<float *>(device_take(stream, n_rows * n_cols * sizeof *known));
		size_t row_size = n_cols * sizeof *known;
		const struct device_copy copy = { known,    row_size,
						  amax,	    amax_stride * sizeof *amax,
						  row_size, n_rows };

		device_copy_in(stream, &copy);
	}
	if (device_stream_stopped(stream))
		return;
	gpu_cast(stream, &in, spec, known, &there, counts);
	const struct device_copy codes = {
		out->codes, out->stride, there.rowwise.codes, there.rowwise.row_stride,
		x->cols,    x->rows
	};
	const struct device_copy scales = { out->scale_inv,	     out->scale_stride * size,
					    there.rowwise.scale_inv, n_cols * size,
					    n_cols * size,	     n_rows };

	device_copy_out(stream, &codes);
	device_copy_out(stream, &scales);
	counts_out(stream, counts, out->stats);
}

/* If amax must be computed, a band has whole tiles. */
static void run_cast(const struct matrix *x, const struct qspec *spec, const float *amax,
		     size_t amax_stride, const struct quant_out *out)
{
	struct tile tile = spec->tile;
	size_t step = tile.rows == WHOLE ? (amax ? 1 : x->rows) : tile.rows;

	by_bands(x->rows, step, [&](struct device_stream *stream, size_t first, size_t n) {
		const struct matrix band = matrix_rows(x, first, n);
		struct quant_out to = *out;
		size_t row = grid_row(tile, first);

		to.codes += first * out->stride;
		to.scale_inv = static_cast<char *>(out->scale_inv) +
			       row * out->scale_stride * scale_size(spec->scale_type);
		quantize_band(stream, &band, spec, amax ? amax + row * amax_stride : NULL,
			      amax_stride, &to);
	});
}

static void dequantize_band(struct device_stream *stream, const struct quant_in *q,
			    enum dtype dtype, void *y, size_t y_stride)
{
	size_t n_rows = tile_count(q->rows, q->tile.rows),
	       n_cols = tile_count(q->cols, q->tile.cols);
	size_t size = scale_size(q->scale_type), y_size = dtype_size(dtype),
	       stride = round_up(q->cols, ROW_ALIGN);
	struct quant_in there = *q;
	void *codes, *scales, *values;

	if (n_rows == 0 || n_cols == 0)
		return;
	codes = device_take(stream, q->rows * stride);
	scales = device_take(stream, n_rows * n_cols * size);
	const struct device_copy codes_in = {
		codes, stride, q->codes, q->stride, q->cols, q->rows
	};
	const struct device_copy scales_in = { scales,	      n_cols * size,
					       q->scale_inv,  q->scale_stride * size,
					       n_cols * size, n_rows };

	device_copy_in(stream, &codes_in);
	device_copy_in(stream, &scales_in);
	values = device_take(stream, q->rows * stride * y_size);
	if (device_stream_stopped(stream))
		return;
	there.codes = static_cast<uint8_t *>(codes);
	there.stride = stride;
	there.scale_inv = scales;
	there.scale_stride = n_cols;
	gpu_dequantize(stream, &there, dtype, values, stride);
	const struct device_copy values_out = {
		y, y_stride * y_size, values, stride * y_size, q->cols * y_size, q->rows
	};

	device_copy_out(stream, &values_out);
	device_wait(stream);
}

static void run_dequantize(const struct quant_in *q, enum dtype dtype, void *y, size_t y_stride)
{
	by_bands(q->rows, q->tile.rows == WHOLE ? 1 : q->tile.rows,
		 [&](struct device_stream *stream, size_t first, size_t n) {
			 struct quant_in band = *q;

			 band.rows = n;
			 band.codes += first * q->stride;
			 band.scale_inv = static_cast<const char *>(q->scale_inv) +
					  grid_row(q->tile, first) * q->scale_stride *
						  scale_size(q->scale_type);
			 dequantize_band(stream, &band, dtype,
					 static_cast<char *>(y) +
						 first * y_stride * dtype_size(dtype),
					 y_stride);
		 });
}

/* --- operations whose output is FP8 --- */

/* Makes the copy (rows, cols) of the GPU: its codes are contiguous along the same dimension as the
 * host's, and its scales are the host's, whose padding stays. */
static struct fp8_copy copy_in(struct device_stream *stream, const struct fp8_copy *host,
			       const struct qspec *spec, size_t rows, size_t cols)
{
	struct fp8_copy there = *host;
	bool by_columns = host->col_stride != 1 && host->row_stride == 1;

	if (!host->codes)
		return there;
	there.row_stride = by_columns ? 1 : round_up(cols, ROW_ALIGN);
	there.col_stride = by_columns ? round_up(rows, ROW_ALIGN) : 1;
	there.codes = static_cast<uint8_t *>(device_take(
		stream, by_columns ? cols * there.col_stride : rows * there.row_stride));
	there.scale_inv =
		bytes_in(stream, host->scale_inv,
			 host->grid.rows * host->grid.cols * scale_size(spec->scale_type));
	return there;
}

/* Copies codes that are contiguous along no dimension, through memory of the host. */
static void codes_scatter(struct device_stream *stream, const struct fp8_copy *host,
			  const struct fp8_copy *there, size_t rows, size_t cols)
{
	uint8_t *row = static_cast<uint8_t *>(xcalloc(cols, 1));

	for (size_t i = 0; i < rows; i++) {
		bytes_out(stream, row, there->codes + i * there->row_stride, cols);
		device_wait(stream);
		for (size_t j = 0; j < cols; j++)
			host->codes[i * host->row_stride + j * host->col_stride] = row[j];
	}
	free(row);
}

static void copy_out(struct device_stream *stream, const struct fp8_copy *host,
		     const struct fp8_copy *there, const struct qspec *spec, size_t rows,
		     size_t cols)
{
	const struct device_copy by_columns = { host->codes,  host->col_stride,
						there->codes, there->col_stride,
						rows,	      cols };
	const struct device_copy by_rows = { host->codes,  host->row_stride,
					     there->codes, there->row_stride,
					     cols,	   rows };

	if (!host->codes)
		return;
	if (there->row_stride == 1 && host->row_stride == 1)
		device_copy_out(stream, &by_columns);
	else if (host->col_stride == 1)
		device_copy_out(stream, &by_rows);
	else
		codes_scatter(stream, host, there, rows, cols);
	bytes_out(stream, host->scale_inv, there->scale_inv,
		  host->grid.rows * host->grid.cols * scale_size(spec->scale_type));
}

struct device_outputs {
	struct device_stream *stream;
	struct fp8_out there;
	unsigned long long *counts;
};

/* Prepares an output of (rows, cols).  Returns false if there is nothing to do, or the stream has
 * stopped. */
static bool outputs_begin(struct device_outputs *outputs, const struct qspec *spec,
			  const struct fp8_out *out, size_t rows, size_t cols)
{
	struct device_stream *stream = outputs->stream;

	if (rows == 0 || cols == 0)
		return false;
	outputs->there = *out;
	outputs->there.rowwise = copy_in(stream, &out->rowwise, spec, rows, cols);
	outputs->there.columnwise = copy_in(stream, &out->columnwise, spec, cols, rows);
	if (out->scale)
		outputs->there.scale =
			static_cast<float *>(bytes_in(stream, out->scale, sizeof *out->scale));
	if (out->amax) {
		outputs->there.amax = static_cast<float *>(device_take(stream, sizeof *out->amax));
		device_zero(stream, outputs->there.amax, sizeof *out->amax);
	}
	outputs->counts = counts_new(stream);
	return !device_stream_stopped(stream);
}

static void outputs_end(struct device_outputs *outputs, const struct qspec *spec,
			const struct fp8_out *out, size_t rows, size_t cols)
{
	struct device_stream *stream = outputs->stream;
	float amax = 0;

	copy_out(stream, &out->rowwise, &outputs->there.rowwise, spec, rows, cols);
	copy_out(stream, &out->columnwise, &outputs->there.columnwise, spec, cols, rows);
	if (out->amax)
		bytes_out(stream, &amax, outputs->there.amax, sizeof amax);
	counts_out(stream, outputs->counts, out->stats);
	if (out->amax)
		*out->amax = amax_max(*out->amax, amax);
}

static void run_cast_transpose(const struct matrix *x, const struct qspec *spec,
			       const struct fp8_out *out)
{
	struct device_outputs outputs = { stream_begin(), {}, NULL };
	struct matrix in = matrix_in(outputs.stream, x);

	if (!outputs_begin(&outputs, spec, out, x->rows, x->cols))
		return;
	gpu_cast(outputs.stream, &in, spec, NULL, &outputs.there, outputs.counts);
	outputs_end(&outputs, spec, out, x->rows, x->cols);
}

static void run_norm(const struct norm_args *args, const struct qspec *spec,
		     const struct fp8_out *out)
{
	struct device_outputs outputs = { stream_begin(), {}, NULL };
	struct device_stream *stream = outputs.stream;
	size_t size = args->x.rows * sizeof(float);
	struct norm_args there = *args;

	there.x = matrix_in(stream, &args->x);
	there.gamma = matrix_in(stream, &args->gamma);
	there.beta = matrix_in(stream, &args->beta);
	there.mu = static_cast<float *>(device_take(stream, size));
	there.rsigma = static_cast<float *>(device_take(stream, size));
	if (!outputs_begin(&outputs, spec, out, args->x.rows, args->x.cols))
		return;
	gpu_norm(stream, &there, spec, &outputs.there, outputs.counts);
	if (args->kind == NORM_LAYER)
		bytes_out(stream, args->mu, there.mu, size);
	bytes_out(stream, args->rsigma, there.rsigma, size);
	outputs_end(&outputs, spec, out, args->x.rows, args->x.cols);
}

static void run_activate(const struct activation_args *args, const struct qspec *spec,
			 const struct fp8_out *out)
{
	struct device_outputs outputs = { stream_begin(), {}, NULL };
	struct activation_args there = { args->activation, matrix_in(outputs.stream, &args->x),
					 matrix_in(outputs.stream, &args->up) };

	if (!outputs_begin(&outputs, spec, out, args->x.rows, args->x.cols))
		return;
	gpu_activate(outputs.stream, &there, spec, &outputs.there, outputs.counts);
	outputs_end(&outputs, spec, out, args->x.rows, args->x.cols);
}

static int stream_failed(struct err *err)
{
	return device_stream_failed(device_stream_here(), err);
}

extern "C" const struct backend backend_gpu = {
	/* a copy of a band takes some hundred microseconds, many times a launch and a wait */
	.name = GPU_NAME,
	.summary = GPU_SUMMARY,
	.rank = 10,
	.on_device = true,
	.band = (size_t)16 << 20,
	.unusable = device_missing,
	.n_devices = device_count,
	.use_devices = device_use,
	.failed = stream_failed,
	.amax = run_amax,
	.cast = run_cast,
	.quantize_fp4 = NULL,
	.dequantize = run_dequantize,
	.error = NULL,
	.supports = gpu_gemm_takes,
	.cast_transpose = run_cast_transpose,
	.norm = run_norm,
	.activate = run_activate,
	.in_place = &gpu_in_place,
	.executor = &executor_gpu,
};
