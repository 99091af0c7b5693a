/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm in fp32.  A short row is the work of 16 threads, which are the lanes of its sum; a long
 * one that of a block, which squares, and lets 16 of its threads sum up.  Rows are read twice, the
 * second time from the caches.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/reduce.h"

#define SHORT	      512			/* columns */
#define ROWS_OF_SHORT (SUM_THREADS / SUM_LANES) /* of a block */

struct rms_norm {
	const float *x;
	size_t x_stride;
	const float *weight;
	float offset, eps;
	size_t n_rows, n_cols;
	float *y;
	size_t y_stride;

	__device__ float factor(float squares) const
	{
		return 1.0f / sqrtf(squares / (float)n_cols + eps);
	}

	/* The elements of a row that one of `n` threads has. */
	__device__ void put(size_t row, float scale, unsigned thread, unsigned n) const
	{
		const float *from = x + row * x_stride;
		float *to = y + row * y_stride;

		for (size_t i = thread; i < n_cols; i += n)
			to[i] = from[i] * scale * (offset + weight[i]);
	}
};

static __global__ void rms_norm_short(struct rms_norm norm)
{
	size_t row = (size_t)blockIdx.x * ROWS_OF_SHORT + threadIdx.x / SUM_LANES;
	unsigned lane = threadIdx.x % SUM_LANES;
	const float *x = norm.x + row * norm.x_stride;
	float sum = 0;

	for (size_t i = lane; row < norm.n_rows && i < norm.n_cols; i += SUM_LANES)
		sum += x[i] * x[i];
	sum = lanes_sum(sum);
	if (row < norm.n_rows)
		norm.put(row, norm.factor(sum), lane, SUM_LANES);
}

static __global__ void rms_norm_long(struct rms_norm norm)
{
	__shared__ struct sum_space space;
	const float *x = norm.x + blockIdx.x * norm.x_stride;
	float sum = block_sum(&space, norm.n_cols, [x](size_t i) { return x[i] * x[i]; });

	norm.put(blockIdx.x, norm.factor(sum), threadIdx.x, SUM_THREADS);
}

void gpu_rms_norm(struct device_stream *stream, const float *x, size_t x_stride,
		  const float *weight, float offset, float eps, size_t n_rows, size_t n_cols,
		  float *y, size_t y_stride)
{
	struct rms_norm norm = { x, x_stride, weight, offset, eps, n_rows, n_cols, y, y_stride };

	if (n_rows == 0 || n_cols == 0 || device_stream_stopped(stream))
		return;
	if (n_cols <= SHORT)
		GPU_LAUNCH(rms_norm_short, (n_rows + ROWS_OF_SHORT - 1) / ROWS_OF_SHORT,
			   SUM_THREADS, device_stream_native(stream), norm);
	else
		GPU_LAUNCH(rms_norm_long, n_rows, SUM_THREADS, device_stream_native(stream), norm);
	device_launched(stream, "rms_norm");
}
