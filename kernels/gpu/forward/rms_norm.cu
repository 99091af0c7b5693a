/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm in fp32.  16 threads, the lanes of its sum, work on a short row; a block
 * works on a long one, whose threads compute squares, which 16 of them add.  Rows are read two or
 * three times, after the first from the caches.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/reduce.h"

#define SHORT	      512		    /* columns */
#define ROWS_OF_SHORT (THREADS / SUM_LANES) /* rows of a block */

static __device__ inline float factor_of(const struct rms_norm_args &a, float squares)
{
	return 1.0f / sqrtf(squares / (float)a.n_cols + a.eps);
}

/* Writes the elements of a row that belong to one of `n` threads. */
static __device__ inline void row_put(const struct rms_norm_args &a, size_t row, float mean,
				      float factor, unsigned thread, unsigned n)
{
	const float *x = a.x.data + row * a.x.stride;
	float *y = a.y.data + row * a.y.stride;

	for (size_t i = thread; i < a.n_cols; i += n)
		y[i] = (x[i] - mean) * factor * (a.offset + (a.weight ? a.weight[i] : 0));
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

void gpu_rms_norm(struct device_stream *stream, const struct rms_norm_args *args)
{
	if (args->n_rows == 0 || args->n_cols == 0 || device_stream_stopped(stream))
		return;
	if (args->n_cols <= SHORT)
		GPU_LAUNCH(rms_norm_short, (args->n_rows + ROWS_OF_SHORT - 1) / ROWS_OF_SHORT,
			   THREADS, device_stream_native(stream), *args);
	else
		GPU_LAUNCH(rms_norm_long, args->n_rows, THREADS, device_stream_native(stream),
			   *args);
	device_launched(stream, "rms_norm");
}
