/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the threads of a warp or a block: sums in the order of src/backend/executor.h (16
 * lanes, then pairwise; a lane is a thread, and more threads may compute the values), maxima of
 * values and of magnitudes, and counts.
 */
#ifndef FP8CONV_KERNELS_GPU_REDUCE_H
#define FP8CONV_KERNELS_GPU_REDUCE_H

#include <math.h>
#include <stddef.h>

#include <gpu.h>

#define THREADS	     256 /* of a block, unless stated */
#define N_WARPS	     (THREADS / 32)
#define THREADS_MOST 512 /* of any block */
#define SUM_LANES    16
#define SUM_CHUNK    2048 /* values at once */
#define SUM_AHEAD    8	  /* values that a thread reads before it adds them */

/* Shared memory for the sums of a block. */
struct sum_space {
	alignas(16) float values[SUM_CHUNK];
	float of_warp[N_WARPS];
};

static __device__ inline float shuffle_xor(float v, int lane_mask)
{
	return f32_from_bits(__shfl_xor_sync(GPU_ALL_LANES, f32_bits(v), lane_mask));
}

/* Returns to each 16 adjacent threads the sum of their values.  All get the same bits, because a +
 * b = b + a. */
static __device__ inline float lanes_sum(float v)
{
	for (int step = SUM_LANES / 2; step > 0; step /= 2)
		v += shuffle_xor(v, step);
	return v;
}

/* Returns the larger value; a NaN in v is never larger. */
static __device__ inline float larger(float v, float max)
{
	return v > max ? v : max;
}

/* Returns the largest value over `width` adjacent threads. */
static __device__ inline float lanes_largest(float max, int width)
{
	for (int step = width / 2; step > 0; step /= 2)
		max = larger(shuffle_xor(max, step), max);
	return max;
}

/* Returns the largest value over the block, and synchronizes it.  Called before block_sum(), once
 * in a kernel. */
static __device__ inline float block_largest(struct sum_space *space, float max)
{
	max = lanes_largest(max, 32);
	if (threadIdx.x % 32 == 0)
		space->of_warp[threadIdx.x / 32] = max;
	__syncthreads();
	for (int i = 0; i < N_WARPS; i++)
		max = larger(space->of_warp[i], max);
	return max;
}

/* Adds values i, i + 16, .. below m of each of 16 threads to *sum, in this order. */
static __device__ inline void lanes_add(const struct sum_space *space, unsigned m, float *sum)
{
	unsigned i = threadIdx.x;

	if (i >= SUM_LANES)
		return;
	for (; i + (SUM_AHEAD - 1) * SUM_LANES < m; i += SUM_AHEAD * SUM_LANES) {
		float v[SUM_AHEAD];

		GPU_UNROLL
		for (int k = 0; k < SUM_AHEAD; k++)
			v[k] = space->values[i + k * SUM_LANES];
		GPU_UNROLL
		for (int k = 0; k < SUM_AHEAD; k++)
			*sum += v[k];
	}
	for (; i < m; i += SUM_LANES)
		*sum += space->values[i];
}

/* Returns to all threads of the block the sum of what 16 of them have added. */
static __device__ inline float lanes_end(struct sum_space *space, float sum)
{
	sum = lanes_sum(sum);
	if (threadIdx.x == 0)
		space->of_warp[0] = sum;
	__syncthreads();
	return space->of_warp[0];
}

/* Computes the values of a whole chunk, all of a thread at once. */
template <typename F>
static __device__ inline void chunk_put(struct sum_space *space, size_t first, F f)
{
	float v[SUM_CHUNK / THREADS];

	GPU_UNROLL
	for (unsigned k = 0; k < SUM_CHUNK / THREADS; k++)
		v[k] = f(first + k * THREADS + threadIdx.x);
	GPU_UNROLL
	for (unsigned k = 0; k < SUM_CHUNK / THREADS; k++)
		space->values[k * THREADS + threadIdx.x] = v[k];
}

/* Returns the sum of f(i), i < n, to all threads of the block: all compute values, 16 of them
 * add. */
template <typename F>
static __device__ inline float block_sum(struct sum_space *space, size_t n, F f)
{
	float sum = 0;

	for (size_t first = 0; first < n; first += SUM_CHUNK) {
		unsigned m = n - first < SUM_CHUNK ? (unsigned)(n - first) : SUM_CHUNK;

		__syncthreads(); /* threads may still read the values before */
		if (m == SUM_CHUNK)
			chunk_put(space, first, f);
		else
			for (unsigned i = threadIdx.x; i < m; i += THREADS)
				space->values[i] = f(first + i);
		__syncthreads();
		lanes_add(space, m, &sum);
	}
	return lanes_end(space, sum);
}

/* The same for a row whose values threads have by fours: f(k) are those from (k THREADS +
 * threadIdx.x) 4 on. */
template <int N_FOURS, typename F>
static __device__ inline float block_sum_fours(struct sum_space *space, unsigned n, F f)
{
	const int at_once = SUM_CHUNK / (4 * THREADS);
	float sum = 0;

	GPU_UNROLL
	for (int first = 0; first < N_FOURS; first += at_once) {
		unsigned begin = (unsigned)first * 4 * THREADS, left = n > begin ? n - begin : 0;

		__syncthreads(); /* threads may still read the values before */
		GPU_UNROLL
		for (int k = 0; k < at_once && first + k < N_FOURS; k++)
			*reinterpret_cast<float4 *>(
				&space->values[((unsigned)k * THREADS + threadIdx.x) * 4]) =
				f(first + k);
		__syncthreads();
		lanes_add(space, left < SUM_CHUNK ? left : SUM_CHUNK, &sum);
	}
	return lanes_end(space, sum);
}

/* Returns |v| as bits, which order as the values do; 0 for a NaN. */
static __device__ inline unsigned magnitude_bits(float v)
{
	unsigned bits = f32_magnitude(v);

	return bits > F32_INF ? 0 : bits;
}

static __device__ inline unsigned max_of(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

/* Returns the maximum over each `width` adjacent threads, a power of two up to 32, to all of
 * them. */
static __device__ inline unsigned lanes_max(unsigned max, int width)
{
	for (int step = width / 2; step > 0; step /= 2)
		max = max_of(max, __shfl_xor_sync(GPU_ALL_LANES, max, step));
	return max;
}

/* From N maxima of each thread to those over WIDTH adjacent threads.  At each step a thread gives
 * half of its maxima to another one, so that the thread at `lane` ends with the N / WIDTH of them
 * (at least 1) from lane * N / WIDTH on. */
template <int N, int WIDTH> static __device__ inline void lanes_max_each(unsigned max[N])
{
	int n = N;

	GPU_UNROLL
	for (int step = WIDTH / 2; step > 0; step /= 2) {
		bool upper = threadIdx.x & (unsigned)step;

		if (n == 1) {
			max[0] = max_of(max[0], __shfl_xor_sync(GPU_ALL_LANES, max[0], step));
			continue;
		}
		n /= 2;
		GPU_UNROLL
		for (int i = 0; i < n; i++) {
			unsigned given = upper ? max[i] : max[i + n];

			max[i] = max_of(upper ? max[i + n] : max[i],
					__shfl_xor_sync(GPU_ALL_LANES, given, step));
		}
	}
}

/* Returns the maximum over each `lanes` adjacent threads, a power of two up to all of a block, to
 * all of them; all threads must call it.  With `wanted`, *of_block becomes that of the block.  Once
 * in a kernel. */
static __device__ inline unsigned strip_max(unsigned max, unsigned lanes, bool wanted,
					    unsigned *of_block)
{
	__shared__ unsigned of_warp[THREADS_MOST / 32];
	unsigned of_mine, first = (threadIdx.x & -lanes) / 32;

	max = lanes_max(max, lanes < 32 ? (int)lanes : 32);
	if (lanes <= 32 && !wanted)
		return max;
	of_mine = lanes_max(max, 32);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = of_mine;
	__syncthreads();
	for (unsigned warp = 0; warp < blockDim.x / 32; warp++) {
		*of_block = max_of(*of_block, of_warp[warp]);
		if (warp - first < lanes / 32)
			max = max_of(max, of_warp[warp]);
	}
	return max;
}

/* Returns the maximum over the block to all threads.  Once in a kernel. */
static __device__ inline unsigned block_max(unsigned max)
{
	__shared__ unsigned of_warp[N_WARPS];

	max = lanes_max(max, 32);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = max;
	__syncthreads();
	max = 0;
	for (int i = 0; i < N_WARPS; i++)
		max = max_of(max, of_warp[i]);
	return max;
}

/* Adds the counts of each thread to *total; most are 0. */
static __device__ inline void count_add(unsigned long long *total, unsigned long long n)
{
	if (n)
		atomicAdd(total, n);
}

#endif
