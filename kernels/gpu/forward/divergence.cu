/* SPDX-License-Identifier: Apache-2.0
 *
 * The divergence of two distributions by their logits: a block works on a row.  All threads compute
 * exponentials, and 16 add them in fp64.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/reduce.h"

#define CHUNK 1024 /* columns at once */

struct divergence_space {
	float of_p[CHUNK], of_q[CHUNK], difference[CHUNK];
	float of_warp[2][N_WARPS];
	unsigned before_end[2]; /* of the row: where the largest p and q begin */
	double sums[SUM_LANES][4];
};

/* Returns the largest value of the row to all threads, and raises *before_end, a zero in shared
 * memory, to the columns from its first place to the end. */
static __device__ float row_largest(const float *x, size_t n, float *of_warp, unsigned *before_end)
{
	float max = -INFINITY;

	for (size_t i = threadIdx.x; i < n; i += THREADS)
		max = larger(x[i], max);
	max = lanes_largest(max, 32);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = max;
	__syncthreads();
	for (int i = 0; i < N_WARPS; i++)
		max = larger(of_warp[i], max);
	for (size_t i = threadIdx.x; i < n; i += THREADS)
		if (x[i] == max) {
			atomicMax(before_end, (unsigned)(n - i));
			break; /* later ones are nearer to the end */
		}
	return max;
}

/* Adds the sums of the lanes, 8, 4, 2 and 1 apart.  Called by one thread. */
static __device__ void lanes_add(double (*sums)[4])
{
	for (int step = SUM_LANES / 2; step > 0; step /= 2)
		for (int lane = 0; lane < step; lane++)
			for (int i = 0; i < 4; i++)
				sums[lane][i] += sums[lane + step][i];
}

/* Adds to the lane's sums (of p, of q, cross p, cross q) its columns of a chunk of m. */
static __device__ void chunk_add(const struct divergence_space *space, unsigned m, double *sums)
{
	for (unsigned i = threadIdx.x; i < m; i += SUM_LANES) {
		sums[0] += space->of_p[i];
		sums[1] += space->of_q[i];
		sums[2] += (double)space->of_p[i] * space->difference[i];
		sums[3] += (double)space->of_q[i] * -space->difference[i];
	}
}

static __global__ void divergence_rows(struct divergence_args a)
{
	__shared__ struct divergence_space space;
	const float *p = a.p + blockIdx.x * a.n_cols, *q = a.q + blockIdx.x * a.n_cols;
	unsigned n = (unsigned)a.n_cols, first_col = (unsigned)a.first;
	const double *sums = space.sums[0];
	float max_p, max_q;

	if (threadIdx.x < 2)
		space.before_end[threadIdx.x] = 0;
	for (int i = 0; threadIdx.x < SUM_LANES && i < 4; i++)
		space.sums[threadIdx.x][i] = 0;
	__syncthreads();
	max_p = row_largest(p, n, space.of_warp[0], &space.before_end[0]);
	max_q = row_largest(q, n, space.of_warp[1], &space.before_end[1]);
	for (unsigned first = 0; first < n; first += CHUNK) {
		unsigned m = n - first < CHUNK ? n - first : CHUNK;

		__syncthreads(); /* threads may still read the values before */
		for (unsigned i = threadIdx.x; i < m; i += THREADS) {
			space.of_p[i] = f32_exp(p[first + i] - max_p);
			space.of_q[i] = f32_exp(q[first + i] - max_q);
			space.difference[i] = p[first + i] - q[first + i];
		}
		__syncthreads();
		if (threadIdx.x < SUM_LANES)
			chunk_add(&space, m, space.sums[threadIdx.x]);
	}
	__syncthreads();
	if (threadIdx.x > 0)
		return;
	lanes_add(space.sums);
	a.sums[blockIdx.x] = (struct divergence_sums){ max_p,
						       max_q,
						       first_col + n - space.before_end[0],
						       first_col + n - space.before_end[1],
						       sums[0],
						       sums[1],
						       sums[2],
						       sums[3] };
}

void gpu_divergence(struct device_stream *stream, const struct divergence_args *args)
{
	if (args->n_rows == 0 || args->n_cols == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(divergence_rows, args->n_rows, THREADS, device_stream_native(stream), *args);
	device_launched(stream, "divergence_rows");
}
