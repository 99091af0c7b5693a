/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm in fp32.  16 threads, the lanes of its sum, work on a short row; a block
 * works on a long one, whose threads compute squares, which 16 of them add.  Rows are read two or
 * three times, after the first from the caches.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"

#define SHORT	      512		    /* columns */
#define ROWS_OF_SHORT (THREADS / SUM_LANES) /* rows of a block */

static __device__ inline float factor_of(const struct rms_norm_args &a, float squares)
{
	return 1.0f / sqrtf(squares / (float)a.n_cols + a.eps);
}

/* What is found in the values that are added, and in the rounded ones. */
enum { FOUND_ADD, FOUND_Y, N_FOUND };

/* Writes the elements of a row that belong to one of `n` threads. */
static __device__ inline void row_put(const struct rms_norm_args &a, size_t row, float mean,
				      float factor, unsigned thread, unsigned n)
{
	const float *x = a.x.data + row * a.x.stride;
	float *y = a.y.data + row * a.y.stride;

	for (size_t i = thread; i < a.n_cols; i += n)
		y[i] = (x[i] - mean) * factor * (a.offset + (a.weight ? a.weight[i] : 0));
}

/* The same for all threads of a block, rounded if that is wanted. */
static __device__ inline void row_put_observed(const struct rms_norm_args &a, size_t row,
					       float mean, float factor, struct magnitudes *found)
{
	const float *x = a.x.data + row * a.x.stride;
	uint16_t *codes = a.rounded.codes;

	for (size_t i = threadIdx.x; i < a.n_cols; i += THREADS) {
		float v = (x[i] - mean) * factor * (a.offset + (a.weight ? a.weight[i] : 0));

		if (a.rounded.stats) {
			v = rounded(v);
			found[FOUND_Y].add(v);
		}
		if (codes)
			codes[row * a.n_cols + i] = (uint16_t)(f32_bits(v) >> 16);
		if (a.y.data)
			a.y.data[row * a.y.stride + i] = v;
	}
}

/* Returns element i of a row, of a sum that is made on the way. */
static __device__ inline float sum_put(const struct rms_norm_args &a, size_t row, size_t i,
				       struct magnitudes *found)
{
	float v = a.x.data[row * a.x.stride + i], more;

	if (!a.sum)
		return v;
	more = a.add[row * a.n_cols + i];
	found[FOUND_ADD].add(more);
	a.sum[row * a.x.stride + i] = v + more;
	return v + more;
}

static __global__ void rms_norm_short(struct rms_norm_args a)
{
	size_t row = (size_t)blockIdx.x * ROWS_OF_SHORT + threadIdx.x / SUM_LANES;
	unsigned lane = threadIdx.x % SUM_LANES;
	const float *x = a.x.data + row * a.x.stride;
	size_t n = row < a.n_rows ? a.n_cols : 0;
	float mean = 0, sum = 0;

	if (a.centered) {
		for (size_t i = lane; i < n; i += SUM_LANES)
			sum += x[i];
		mean = lanes_sum(sum) / (float)a.n_cols;
		sum = 0;
	}
	for (size_t i = lane; i < n; i += SUM_LANES)
		sum += (x[i] - mean) * (x[i] - mean);
	sum = lanes_sum(sum);
	if (n)
		row_put(a, row, mean, factor_of(a, sum), lane, SUM_LANES);
}

static __global__ void rms_norm_long(struct rms_norm_args a)
{
	__shared__ struct sum_space space;
	const float *x = a.x.data + blockIdx.x * a.x.stride;
	float mean = 0, sum;

	if (a.centered)
		mean = block_sum(&space, a.n_cols, [x](size_t i) { return x[i]; }) /
		       (float)a.n_cols;
	sum = block_sum(&space, a.n_cols,
			[x, mean](size_t i) { return (x[i] - mean) * (x[i] - mean); });
	row_put(a, blockIdx.x, mean, factor_of(a, sum), threadIdx.x, THREADS);
}

/* A block for a row, of any length.  A thread reads in the later passes what it wrote itself. */
static __global__ void rms_norm_observed(struct rms_norm_args a)
{
	__shared__ struct sum_space space;
	struct value_stats *const stats[N_FOUND] = { a.add_stats, a.rounded.stats };
	struct magnitudes found[N_FOUND] = {};
	const float *x = a.x.data + blockIdx.x * a.x.stride;
	float mean = 0, sum;

	if (a.centered) {
		mean = block_sum(&space, a.n_cols,
				 [&a, &found](size_t i) {
					 return sum_put(a, blockIdx.x, i, found);
				 }) /
		       (float)a.n_cols;
		sum = block_sum(&space, a.n_cols,
				[x, mean](size_t i) { return (x[i] - mean) * (x[i] - mean); });
	} else {
		sum = block_sum(&space, a.n_cols, [&a, &found](size_t i) {
			float v = sum_put(a, blockIdx.x, i, found);

			return v * v;
		});
	}
	row_put_observed(a, blockIdx.x, mean, factor_of(a, sum), found);
	magnitudes_raise<N_FOUND>(found, stats);
}

void gpu_rms_norm(struct device_stream *stream, const struct rms_norm_args *args)
{
	if (args->n_rows == 0 || args->n_cols == 0 || device_stream_stopped(stream))
		return;
	if (args->sum || args->rounded.stats)
		GPU_LAUNCH(rms_norm_observed, args->n_rows, THREADS, device_stream_native(stream),
			   *args);
	else if (args->n_cols <= SHORT)
		GPU_LAUNCH(rms_norm_short, (args->n_rows + ROWS_OF_SHORT - 1) / ROWS_OF_SHORT,
			   THREADS, device_stream_native(stream), *args);
	else
		GPU_LAUNCH(rms_norm_long, args->n_rows, THREADS, device_stream_native(stream),
			   *args);
	device_launched(stream, "rms_norm");
}
