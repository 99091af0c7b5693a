/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantizing.  A rowwise copy is made band by band on all threads, as in execute/pipeline_cast.c; a
 * columnwise one strip by strip (columnwise.c).  A device makes both at once, matrix by matrix.
 */
#include "lib/quantize.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "lib/columnwise.h"
#include "lib/device.h"
#include "num/history.h"

#define BAND_BYTES     ((size_t)256 << 10)
#define THREAD_BYTES   ((size_t)2 << 20)  /* of a tensor, for which starting a thread pays */
#define STREAMED_CODES ((size_t)64 << 10) /* of a matrix that is read and written past the caches */
#define STREAM_ALIGN   64
#define WHOLE_TILE     ((struct tile){ WHOLE, WHOLE })

struct job {
	const struct fp8conv_context *context;
	const struct quantizer *q;
	struct stack x;
	int n_threads;
	struct device_work work;
	struct copies rowwise, columnwise;
	bool streaming;		   /* large bands, whose codes bypass the caches */
	size_t band, n_bands;	   /* rows; bands of a matrix */
	float *amax;		   /* (matrices, n_bands); NULL: scales of tiles */
	struct quant_stats *stats; /* of each worker */
	struct buffer *scales;	   /* of each worker: in row-major order, to be placed */
};

int stack_threads(const struct fp8conv_context *context, const struct stack *stack)
{
	size_t bytes = stack->n * stack->rows * stack->cols * (dtype_bits(stack->dtype) / 8);
	size_t n = bytes / THREAD_BYTES + 1;

	return n < (size_t)context->n_threads ? (int)n : context->n_threads;
}

size_t band_rows(const struct fp8conv_context *context, size_t tile_rows, size_t row_size)
{
	size_t bytes = context->backend->band ? context->backend->band : BAND_BYTES;
	size_t rows = bytes / (row_size ? row_size : 1);

	return round_up(rows ? rows : 1, tile_rows == WHOLE ? 1 : tile_rows);
}

static struct matrix job_band(const struct job *job, size_t item)
{
	size_t first = item % job->n_bands * job->band, left = job->x.rows - first;

	return stack_rows(&job->x, item / job->n_bands, first, left < job->band ? left : job->band);
}

/* Do the codes of a matrix go past the caches?  Stores do so where they are aligned. */
static bool job_streams(const struct job *job, const struct stack *codes)
{
	return !job->context->backend->band && codes->data &&
	       ((uintptr_t)codes->data | codes->stride | codes->next) % STREAM_ALIGN == 0 &&
	       job->x.rows * job->x.cols >= STREAMED_CODES;
}

/* Begins the job for bands of whole tiles; those that stream are a share of each thread. */
static void job_cut(struct job *job, size_t tile_rows)
{
	size_t n_threads = (size_t)job->n_threads;

	job->streaming = job_streams(job, &job->rowwise.codes);
	if (job->streaming)
		job->band = round_up(tile_count(job->x.rows, job->x.n < n_threads ? n_threads : 1),
				     tile_rows == WHOLE ? 1 : tile_rows);
	else
		job->band = band_rows(job->context, tile_rows,
				      job->x.cols * dtype_bits(job->x.dtype) / 8);
	job->n_bands = tile_count(job->x.rows, job->band);
}

static int amax_band(void *context, int worker, size_t item, struct err *err)
{
	struct job *job = context;
	const struct backend *backend = job->context->backend;
	struct matrix x = job_band(job, item);
	uint64_t n_nonfinite = 0; /* the cast counts them */

	(void)worker;
	backend_amax(backend, &x, WHOLE_TILE, &job->amax[item], 1, &n_nonfinite);
	return backend_failed(backend, "x", err);
}

/* Sets job->amax of the first band of each matrix to that of the matrix. */
static int amax_pass(struct job *job, struct err *err)
{
	if (pool_run(job->n_threads, job->x.n * job->n_bands, amax_band, job, NULL, err))
		return -1;
	for (size_t i = 0; i < job->x.n; i++) {
		float *amax = &job->amax[i * job->n_bands];

		for (size_t band = 1; band < job->n_bands; band++)
			*amax = amax_max(*amax, amax[band]);
	}
	return 0;
}

int amax_stack(const struct fp8conv_context *context, const struct stack *x, float *amax,
	       struct err *err)
{
	struct job job = { .context = context, .x = *x, .n_threads = stack_threads(context, x) };
	int rc;

	memset(amax, 0, x->n * sizeof *amax);
	job_cut(&job, WHOLE);
	if (job.n_bands == 0 || x->cols == 0)
		return 0;
	job.amax = xcalloc(x->n * job.n_bands, sizeof *job.amax);
	rc = amax_pass(&job, err);
	for (size_t i = 0; i < x->n; i++)
		amax[i] = job.amax[i * job.n_bands];
	free(job.amax);
	return rc;
}

/* Casts a band.  The first one of a matrix with one scale writes it. */
static int cast_band(void *context, int worker, size_t item, struct err *err)
{
	struct job *job = context;
	const struct backend *backend = job->context->backend;
	struct matrix x = job_band(job, item);
	size_t i = item / job->n_bands, first = item % job->n_bands * job->band;
	struct qspec spec = job->q->spec;
	struct tiles tiles = { i, job->amax ? 0 : first / spec.tile.rows, 0,
			       tile_count(x.rows, spec.tile.rows),
			       tile_count(x.cols, spec.tile.cols) };
	const float *amax = job->amax ? &job->amax[i * job->n_bands] : NULL;
	float other = 0;
	struct quant_out out = { .codes = stack_at(&job->rowwise.codes, i, first),
				 .stride = job->rowwise.codes.stride,
				 .stats = &job->stats[worker],
				 .streaming = job->streaming };

	if (scales_begin(&job->rowwise, &tiles, &job->scales[worker], &out, err))
		return -1;
	if (job->amax && first)
		out.scale_inv = &other;
	if (job->amax && job->q->scale) {
		spec.arith = ARITH_GIVEN;
		spec.pow2 = false;
		amax = job->q->scale;
	}
	backend_cast(backend, &x, &spec, amax, 1, &out);
	if (!job->amax)
		scales_place(&job->rowwise, &tiles, &out);
	return backend_failed(backend, "x", err);
}

static int write_rowwise(struct job *job, struct err *err)
{
	int n_threads = job->n_threads, rc;

	job->scales = xcalloc((size_t)n_threads, sizeof *job->scales);
	rc = pool_run(n_threads, job->x.n * job->n_bands, cast_band, job, NULL, err);
	for (int i = 0; i < n_threads; i++)
		buffer_release(&job->scales[i]);
	free(job->scales);
	return rc;
}

static int write_columnwise(const struct job *job, struct err *err)
{
	struct columnwise c = { .context = job->context,
				.n_threads = job->n_threads,
				.q = job->q,
				.x = job->x,
				.copies = job->columnwise,
				.amax = job->amax,
				.amax_stride = job->n_bands,
				.stats = job->rowwise.codes.data ? NULL : job->stats,
				.streaming = job_streams(job, &job->columnwise.codes) };

	return columnwise_write(&c, err);
}

/* Band by band, on all threads. */
static int quantize_bands(struct job *job, struct err *err)
{
	bool whole = job->q->spec.tile.rows == WHOLE;
	int rc = 0;

	job_cut(job, job->q->spec.tile.rows);
	if (whole) {
		job->amax = xcalloc(job->x.n * job->n_bands, sizeof *job->amax);
		rc = amax_pass(job, err);
	}
	if (!rc && job->rowwise.codes.data)
		rc = write_rowwise(job, err);
	if (!rc && job->columnwise.codes.data)
		rc = write_columnwise(job, err);
	for (size_t i = 0; !rc && job->q->amax && i < job->x.n; i++)
		*job->q->amax = amax_max(*job->q->amax, job->amax[i * job->n_bands]);
	free(job->amax);
	return rc;
}

/* Returns the copy of matrix i; codes of the transpose, but with E8M0 scales. */
static struct fp8_copy copy_of(const struct copies *copies, const struct qspec *spec,
			       bool columnwise, size_t i)
{
	bool along = columnwise && spec->scale_type == SCALE_E8M0;
	size_t stride = copies->codes.stride;

	return (struct fp8_copy){ .codes = stack_at(&copies->codes, i, 0),
				  .row_stride = along ? 1 : stride,
				  .col_stride = along ? stride : 1,
				  .scale_inv = stack_at(&copies->scales, i, 0),
				  .grid = copies->grid };
}

static int cast_matrix(void *context, int worker, size_t i, struct err *err)
{
	struct job *job = context;
	const struct backend *backend = job->context->backend;
	struct matrix x = stack_rows(&job->x, i, 0, job->x.rows);
	struct quantizer q = *job->q;
	struct quantized_tensor t = { .rows = x.rows, .cols = x.cols, .spec = q.spec };

	t.rowwise = copy_of(&job->rowwise, &q.spec, false, i);
	t.columnwise = copy_of(&job->columnwise, &q.spec, true, i);
	q.order = SCALES_PADDED; /* any but the one of quantize_bands() */
	q.amax = q.amax ? &job->amax[i] : NULL;
	quantizer_quantize(&q, backend, &x, &t, &job->stats[worker]);
	return backend_failed(backend, "x", err);
}

static int quantize_matrices(struct job *job, struct err *err)
{
	int rc;

	job->amax = xcalloc(job->x.n, sizeof *job->amax);
	rc = pool_run(job->n_threads, job->x.n, cast_matrix, job, NULL, err);
	for (size_t i = 0; !rc && job->q->amax && i < job->x.n; i++)
		*job->q->amax = amax_max(*job->q->amax, job->amax[i]);
	free(job->amax);
	return rc;
}

/* Sets scales to 0, in pieces without gaps. */
static void scales_clear(const struct device_work *work, const struct stack *scales)
{
	bool whole = scales->stride == scales->cols;
	size_t step = whole ? scales->rows : 1,
	       size = step * scales->cols * (dtype_bits(scales->dtype) / 8);

	for (size_t i = 0; i < scales->n; i++)
		for (size_t row = 0; row < scales->rows; row += step) {
			if (work->ops)
				work->ops->zero(work->queue, stack_at(scales, i, row), size);
			else
				memset(stack_at(scales, i, row), 0, size);
		}
}

/* Reads a copy of x from two tensors of the caller, and clears the padding of its scales. */
static int copies_read(struct copies *copies, const struct job *job, bool columnwise,
		       const struct fp8conv_tensor *const tensors[2], struct err *err)
{
	static const char *const names[2][2] = { { "rowwise", "rowwise_scale_inv" },
						 { "columnwise", "columnwise_scale_inv" } };
	const struct qspec *spec = &job->q->spec;
	size_t rows = columnwise ? job->x.cols : job->x.rows,
	       cols = columnwise ? job->x.rows : job->x.cols;
	bool along = columnwise && spec->scale_type == SCALE_E8M0;
	struct stack wanted = { .dtype = spec->format == FP8_E4M3 ? DT_F8_E4M3 : DT_F8_E5M2,
				.n = job->x.n,
				.device = job->x.device,
				.rows = along ? cols : rows,
				.cols = along ? rows : cols };

	if (tensor_read_as(tensors[0], names[columnwise][0], &wanted, &copies->codes, err))
		return -1;
	copies->grid = scale_grid_of(spec, rows, cols, columnwise, job->q->order);
	wanted.dtype = spec->scale_type == SCALE_E8M0 ? DT_F8_E8M0 : DT_F32;
	wanted.rows = copies->grid.rows;
	wanted.cols = copies->grid.cols;
	if (tensor_read_as(tensors[1], names[columnwise][1], &wanted, &copies->scales, err))
		return -1;
	if (copies->grid.swizzled && copies->scales.stride != wanted.cols)
		return err_set(err, ERR_USAGE, "%s is swizzled and not contiguous",
			       names[columnwise][1]);
	if (copies->grid.row_stride == 1 && copies->grid.cols > 1)
		copies->grid.col_stride = copies->scales.stride;
	else
		copies->grid.row_stride = copies->scales.stride;
	if (job->q->order == SCALES_COMPACT || job->x.rows == 0 || job->x.cols == 0)
		return 0;
	scales_clear(&job->work, &copies->scales);
	return 0;
}

/* Reads the tensors of *out. */
static int job_read(struct job *job, struct quantizer *q, const struct fp8conv_quantized *out,
		    struct err *err)
{
	const struct fp8conv_tensor *rowwise[] = { out->rowwise, out->rowwise_scale_inv };
	const struct fp8conv_tensor *columnwise[] = { out->columnwise, out->columnwise_scale_inv };

	if (stack_check_float(&job->x, "x", err) ||
	    word_check(out->layout, SCALES_GEMM + 1, "layout", err))
		return -1;
	q->order = (enum scale_order)out->layout;
	q->rowwise = rowwise[0] || rowwise[1];
	q->columnwise = columnwise[0] || columnwise[1];
	if (!q->rowwise && !q->columnwise)
		return err_set(err, ERR_USAGE, "out has no copy: set rowwise or columnwise");
	if (q->rowwise && copies_read(&job->rowwise, job, false, rowwise, err))
		return -1;
	if (q->columnwise && copies_read(&job->columnwise, job, true, columnwise, err))
		return -1;
	return 0;
}

/* Can a stack be quantized as one matrix?  Rowwise copies, whose scales are rows of one grid. */
static bool job_is_one(const struct job *job)
{
	const struct copies *rowwise = &job->rowwise;
	size_t tile_rows = job->q->spec.tile.rows;

	return !job->columnwise.codes.data && tile_rows != WHOLE && job->x.rows % tile_rows == 0 &&
	       rowwise->grid.rows == job->x.rows / tile_rows && rowwise->grid.col_stride == 1 &&
	       !rowwise->grid.swizzled && stack_is_one(&job->x) && stack_is_one(&rowwise->codes) &&
	       stack_is_one(&rowwise->scales);
}

/* On the device of x: a launch for each matrix, or for all.  With the scale of a state it waits, to
 * raise the amax of the state. */
static void quantize_in_place(struct job *job)
{
	const struct device_work *work = &job->work;
	size_t n = job_is_one(job) ? 1 : job->x.n;
	float amax = 0, *scale = NULL, *found = NULL;

	if (job->q->scale) {
		scale = work->ops->take(work->queue, sizeof *scale);
		found = work->ops->take(work->queue, sizeof *found);
		if (!scale || !found)
			return;
		work->ops->put(work->queue, scale, job->q->scale, sizeof *scale);
		work->ops->zero(work->queue, found, sizeof *found);
	}
	for (size_t i = 0; i < n; i++) {
		struct matrix x = stack_rows(&job->x, i, 0, job->x.rows);
		struct fp8_out out = { .rowwise = copy_of(&job->rowwise, &job->q->spec, false, i),
				       .columnwise =
					       copy_of(&job->columnwise, &job->q->spec, true, i),
				       .scale = scale,
				       .amax = found };

		if (n < job->x.n) {
			x.rows *= job->x.n;
			out.rowwise.grid.rows *= job->x.n;
		}
		work->ops->cast_transpose(work->queue, &x, &job->q->spec, NULL, &out);
	}
	if (!found)
		return;
	work->ops->fetch(work->queue, &amax, found, sizeof amax);
	*job->q->amax = amax_max(*job->q->amax, amax);
}

int quantize_stack(struct fp8conv_context *context, struct quantizer *q,
		   const struct fp8conv_tensor *x, struct fp8conv_quantized *out, struct err *err)
{
	struct job job = { .context = context, .q = q };
	int rc = 0;

	if (size_check(out, sizeof *out, "out", err) || tensor_read_anywhere(x, "x", &job.x, err) ||
	    device_work_begin(context, x, "x", &job.work, err))
		return -1;
	rc = job_read(&job, q, out, err);
	if (rc)
		return device_work_end(&job.work, rc, err);
	out->block_rows = q->spec.tile.rows;
	out->block_columns = q->spec.tile.cols;
	out->saturated = out->nonfinite = 0;
	if (job.work.ops && job.x.rows && job.x.cols)
		quantize_in_place(&job);
	if (job.work.ops || job.x.rows == 0 || job.x.cols == 0)
		return device_work_end(&job.work, 0, err);
	job.n_threads = stack_threads(context, &job.x);
	job.stats = xcalloc((size_t)job.n_threads, sizeof *job.stats);
	if (context->backend->on_device && (q->columnwise || q->order != SCALES_COMPACT))
		rc = quantize_matrices(&job, err);
	else
		rc = quantize_bands(&job, err);
	for (int worker = 0; worker < job.n_threads; worker++) {
		out->saturated += job.stats[worker].saturated;
		out->nonfinite += job.stats[worker].nonfinite;
	}
	free(job.stats);
	return rc;
}
