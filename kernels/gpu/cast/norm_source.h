/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of RMSNorm and LayerNorm of a matrix (num/norm.h has the order of the sums).  A first
 * kernel writes mu and rsigma of each row, which are also outputs; the second reads x again, from
 * the second-level cache if x fits.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_NORM_SOURCE_H
#define FP8CONV_KERNELS_GPU_CAST_NORM_SOURCE_H

#include "num/norm.h"

#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/load.h"

/* The statistic of a row: the mean, or the root of the mean square. */
struct moments {
	enum norm_kind kind;
	float epsilon;
	float *mu, *rsigma;
};

static __device__ inline float canonical_nan(float v)
{
	return f32_is_nan(v) ? f32_from_bits(F32_NAN) : v;
}

/* Returns the sum of a row to all threads.  The row's lanes are the threads of its block, added as
 * in norm_lanes_sum(). */
static __device__ inline float row_sum(float mine)
{
	__shared__ float lanes[NORM_LANES];

	__syncthreads(); /* threads may still read the last sum */
	lanes[threadIdx.x] = mine;
	__syncthreads();
	for (unsigned step = NORM_LANES / 2; step > 0; step /= 2) {
		if (threadIdx.x < step)
			lanes[threadIdx.x] += lanes[threadIdx.x + step];
		__syncthreads();
	}
	return lanes[0];
}

static __global__ void norm_rows(struct elements x, size_t cols, struct moments m)
{
	size_t row = blockIdx.x;
	float sum = 0, mu = 0;

	if (m.kind == NORM_LAYER) {
		for (size_t col = threadIdx.x; col < cols; col += NORM_LANES)
			sum += x.at(row, col);
		mu = canonical_nan(row_sum(sum) / (float)cols);
		if (threadIdx.x == 0)
			m.mu[row] = mu;
	}
	sum = 0;
	for (size_t col = threadIdx.x; col < cols; col += NORM_LANES) {
		float deviation = x.at(row, col) - mu;

		sum += deviation * deviation;
	}
	sum = row_sum(sum);
	if (threadIdx.x == 0)
		m.rsigma[row] = canonical_nan(norm_rsigma(sum, cols, m.epsilon));
}

struct normed {
	struct elements x, gamma, beta; /* gamma and beta: one row */
	struct moments m;
	bool zero_centered_gamma, has_beta;

	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		float g[GROUP], b[GROUP], mu, rsigma;

		x.load(v, row, col, n);
		if (n == 0)
			return;
		mu = m.kind == NORM_LAYER ? m.mu[row] : 0;
		rsigma = m.rsigma[row];
		gamma.load(g, 0, col, n);
		if (has_beta)
			beta.load(b, 0, col, n);
		for (int i = 0; i < GROUP; i++) {
			v[i] = norm_apply(v[i], mu, rsigma, zero_centered_gamma ? 1 + g[i] : g[i]);
			if (has_beta)
				v[i] = v[i] + b[i];
			if (i >= n)
				v[i] = 0;
		}
	}
};

/* Writes mu and rsigma of each row to the arrays of args. */
static inline struct normed normed_of(struct device_stream *stream, const struct norm_args *args)
{
	struct elements x = elements_of(&args->x);
	struct moments m = { args->kind, args->epsilon, args->mu, args->rsigma };

	GPU_LAUNCH(norm_rows, args->x.rows, NORM_LANES, device_stream_native(stream), x,
		   args->x.cols, m);
	device_launched(stream, "norm_rows");
	return { x, elements_of(&args->gamma), elements_of(&args->beta),
		 m, args->zero_centered_gamma, args->beta.data != NULL };
}

#endif
