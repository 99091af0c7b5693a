/* SPDX-License-Identifier: Apache-2.0
 *
 * From logits to the terms of the cross-entropy: a block works on a row.  All threads compute
 * exponentials, and 16 add them.
 */
#include <math.h>

#include "kernels/gpu/forward/attention.h"
#include "kernels/gpu/reduce.h"

#define AT_ONCE 8 /* loads of a thread */

static __device__ inline void row_cap(float *x, size_t n, float softcap)
{
	for (size_t i = threadIdx.x; i < n; i += THREADS)
		x[i] = softcapped(x[i], softcap);
}

/* Returns the largest value that a thread has of a row. */
static __device__ inline float row_largest(const float *x, size_t n)
{
	float max = -INFINITY;
	size_t i = threadIdx.x;

	for (; i + (AT_ONCE - 1) * THREADS < n; i += AT_ONCE * THREADS) {
		float v[AT_ONCE];

		GPU_UNROLL
		for (int k = 0; k < AT_ONCE; k++)
			v[k] = x[i + k * THREADS];
		GPU_UNROLL
		for (int k = 0; k < AT_ONCE; k++)
			max = larger(v[k], max);
	}
	for (; i < n; i += THREADS)
		max = larger(x[i], max);
	return max;
}

static __global__ void cross_entropy_rows(struct cross_entropy_args a)
{
	__shared__ struct sum_space space;
	size_t row = blockIdx.x, label = a.labels[row];
	float *x = a.logits + row * a.n_cols;
	float max, sum;

	if (a.softcap > 0)
		row_cap(x, a.n_cols, a.softcap);
	max = row_largest(x, a.n_cols);
	max = block_largest(&space, max); /* after this all logits are capped */
	sum = block_sum(&space, a.n_cols, [x, max](size_t i) { return f32_exp(x[i] - max); });
	if (threadIdx.x > 0)
		return;
	a.log_sums[row] = max + logf(sum);
	if (label >= a.first && label - a.first < a.n_cols)
		a.label_logits[row] = x[label - a.first];
}

void gpu_cross_entropy(struct device_stream *stream, const struct cross_entropy_args *args)
{
	struct cross_entropy_args a = *args;

	if (a.n_rows == 0 || a.n_cols == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(cross_entropy_rows, a.n_rows, THREADS, device_stream_native(stream), a);
	device_launched(stream, "cross_entropy_rows");
}
