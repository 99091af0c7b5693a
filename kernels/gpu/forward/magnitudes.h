/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of the values that a kernel reads or writes anyway, and rounding of those that a
 * product takes next: no bytes but a few atomics of each block.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_MAGNITUDES_H
#define FP8CONV_KERNELS_GPU_FORWARD_MAGNITUDES_H

#include "kernels/gpu/forward/float4_rows.h"
#include "kernels/gpu/reduce.h"

#define OBSERVED_BLOCKS 1056 /* what a large GPU runs at once, or twice: few blocks, few atomics */
#define AT_ONCE		2    /* fours of a thread */

/* Returns the largest magnitude, or NaN if a value is one. */
static __device__ inline float four_max(float4 v)
{
	return gpu_max_magnitude(gpu_max_magnitude(v.x, v.y), gpu_max_magnitude(v.z, v.w));
}

/* Returns the amax as bits; a NaN counts as 0. */
static __device__ inline unsigned four_amax(float4 v)
{
	float most = four_max(v);

	if (!f32_is_nan(most))
		return f32_bits(most);
	return max_of(max_of(magnitude_bits(v.x), magnitude_bits(v.y)),
		      max_of(magnitude_bits(v.z), magnitude_bits(v.w)));
}

/* The statistics of a thread's values. */
struct magnitudes {
	unsigned max, n_nonfinite;

	/* Adds values whose largest magnitude has these bits, if it is finite; else returns
	 * false. */
	__device__ bool add_finite(unsigned most)
	{
		if (most < F32_INF)
			max = max_of(max, most);
		return most < F32_INF;
	}

	__device__ void add(float v)
	{
		max = max_of(max, magnitude_bits(v));
		n_nonfinite += f32_magnitude(v) >= F32_INF;
	}

	/* The first n of four.  All four by an instruction for each, which finds inf and NaN too;
	 * where one is, each is looked at again. */
	__device__ void add(float4 v, int n)
	{
		if (n == 4 && add_finite(f32_bits(four_max(v))))
			return;
		if (n > 0)
			add(v.x);
		if (n > 1)
			add(v.y);
		if (n > 2)
			add(v.z);
		if (n > 3)
			add(v.w);
	}
};

/* Adds the magnitudes of all threads of a block to N stats; those that are NULL are left out.  All
 * threads call it, once in a kernel. */
template <int N>
static __device__ inline void magnitudes_raise(const struct magnitudes *found,
					       struct value_stats *const *stats)
{
	__shared__ unsigned max[N][N_WARPS], n_nonfinite[N][N_WARPS];

	GPU_UNROLL
	for (int k = 0; k < N; k++) {
		unsigned m = found[k].max, n = found[k].n_nonfinite;

		for (int step = 16; step > 0; step /= 2) {
			m = max_of(m, __shfl_xor_sync(GPU_ALL_LANES, m, step));
			n += __shfl_xor_sync(GPU_ALL_LANES, n, step);
		}
		if (threadIdx.x % 32 == 0) {
			max[k][threadIdx.x / 32] = m;
			n_nonfinite[k][threadIdx.x / 32] = n;
		}
	}
	__syncthreads();
	GPU_UNROLL
	for (int k = 0; k < N; k++) { /* no run-time index into the arguments */
		if ((int)threadIdx.x != k || !stats[k])
			continue;
		for (int i = 1; i < N_WARPS; i++) {
			max[k][0] = max_of(max[k][0], max[k][i]);
			n_nonfinite[k][0] += n_nonfinite[k][i];
		}
		atomicMax(reinterpret_cast<unsigned *>(&stats[k]->amax), max[k][0]);
		count_add(reinterpret_cast<unsigned long long *>(&stats[k]->n_nonfinite),
			  n_nonfinite[k][0]);
	}
}

/* bf16(v) as fp32; a NaN becomes the usual one. */
static __device__ inline float rounded(float v)
{
	return f32_is_nan(v) ? f32_from_bits(F32_NAN) : bf16_to_f32(bf16_from_f32(v));
}

static __device__ inline float4 fours_of_codes(uint2 codes)
{
	return { f32_from_bits(codes.x << 16), f32_from_bits(codes.x & 0xFFFF0000),
		 f32_from_bits(codes.y << 16), f32_from_bits(codes.y & 0xFFFF0000) };
}

/* Writes up to 4 values that are bf16 already. */
static __device__ inline void codes_store(uint16_t *y, float4 v, int n, bool aligned)
{
	unsigned code[] = { f32_bits(v.x) >> 16, f32_bits(v.y) >> 16, f32_bits(v.z) >> 16,
			    f32_bits(v.w) >> 16 };

	if (n == 4 && aligned) {
		gpu_store(reinterpret_cast<uint2 *>(y),
			  { code[0] | code[1] << 16, code[2] | code[3] << 16 });
		return;
	}
	for (int i = 0; i < n; i++)
		y[i] = (uint16_t)code[i];
}

/* Are rows of n_cols codes, or none, at multiples of 8 bytes? */
static inline bool codes_aligned(const struct rounded_out &rounded, size_t n_cols)
{
	return ((uintptr_t)rounded.codes | (rounded.codes ? n_cols * 2 : 0)) % 8 == 0;
}

/* Rounds up to 4 values of a row, and writes them as codes and, if y is not NULL, as fp32.
 * Rounding keeps the order of magnitudes: if the largest of four stays finite, all do, and the
 * device's conversion gives the bits of num/float16.h. */
static __device__ inline void rounded_store(const struct rounded_out &out, size_t first, float *y,
					    float4 v, const struct fours &at,
					    struct magnitudes *found)
{
	if (at.n == 4 && at.aligned && found->add_finite(gpu_bf16x2(four_max(v), 0) << 16)) {
		uint2 codes = { gpu_bf16x2(v.x, v.y), gpu_bf16x2(v.z, v.w) };

		if (out.codes)
			gpu_store(reinterpret_cast<uint2 *>(out.codes + first), codes);
		if (y)
			gpu_store(reinterpret_cast<float4 *>(y), fours_of_codes(codes));
		return;
	}
	v = fours_each(v, rounded);
	found->add(v, at.n);
	if (out.codes)
		codes_store(out.codes + first, v, at.n, at.aligned);
	if (y)
		fours_store(y, v, at.n, at.aligned);
}

/* Applies an operation to AT_ONCE fours of a thread: what it reads is loaded for all of them before
 * the first is finished.  whole: all of them exist and are aligned. */
template <bool whole, typename Operation>
static __device__ inline void observe(const Operation &operation, const struct fours *at,
				      struct magnitudes *found)
{
	typename Operation::loaded loaded[AT_ONCE];
	struct fours here[AT_ONCE];

	GPU_UNROLL
	for (int k = 0; k < AT_ONCE; k++) {
		here[k] = at[k];
		if (whole) {
			here[k].n = 4;
			here[k].aligned = true;
		}
		loaded[k] = operation.load(here[k]);
	}
	GPU_UNROLL
	for (int k = 0; k < AT_ONCE; k++)
		operation.finish(here[k], loaded[k], found);
}

/* As each_four of float4_rows.h, of operations that add to the magnitudes of N stats.  step_rows,
 * step_cols: from one four of a thread to its next. */
template <int N, typename Operation>
static __global__ void __launch_bounds__(THREADS, 4)
	each_observed(Operation operation, size_t n_rows, size_t n_cols, size_t step_rows,
		      size_t step_cols, bool aligned)
{
	size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, n_across = (n_cols + 3) / 4;
	size_t row = quotient(i, n_across), col = (i - row * n_across) * 4;
	struct magnitudes found[N] = {};

	while (row < n_rows) {
		struct fours at[AT_ONCE];
		bool whole = aligned;

		GPU_UNROLL
		for (int k = 0; k < AT_ONCE; k++) {
			at[k] = { row, col, row < n_rows ? fours_left(col, n_cols) : 0, aligned };
			whole &= at[k].n == 4;
			row += step_rows;
			col += step_cols;
			if (col >= n_across * 4) {
				col -= n_across * 4;
				row++;
			}
		}
		if (whole)
			observe<true>(operation, at, found);
		else
			observe<false>(operation, at, found);
	}
	magnitudes_raise<N>(found, operation.stats);
}

template <int N, typename Operation>
static void observed_launch(struct device_stream *stream, const char *name,
			    const Operation &operation, size_t n_rows, size_t n_cols, bool aligned)
{
	size_t n_across = (n_cols + 3) / 4;
	size_t n_blocks = (n_rows * n_across + THREADS - 1) / THREADS, step;

	if (n_blocks == 0 || device_stream_stopped(stream))
		return;
	n_blocks = n_blocks < OBSERVED_BLOCKS ? n_blocks : OBSERVED_BLOCKS;
	step = n_blocks * THREADS;
	GPU_LAUNCH((each_observed<N, Operation>), n_blocks, THREADS, device_stream_native(stream),
		   operation, n_rows, n_cols, step / n_across, step % n_across * 4, aligned);
	device_launched(stream, name);
}

static __device__ inline struct value_stats *stats_of(const struct row_stats &stats, size_t row,
						      size_t slot)
{
	return slot == NO_SLOT ? NULL : stats.stats[stats.segments[row]] + slot;
}

/* Writes up to 4 values of a row, if they are wanted, rounded if `round`. */
static __device__ inline void values_put(bool round, float *y, uint16_t *codes, float4 v,
					 const struct fours &at, struct magnitudes *found)
{
	if (round)
		v = fours_each(v, rounded);
	found->add(v, at.n);
	if (round && codes)
		codes_store(codes, v, at.n, at.aligned);
	if (y)
		fours_store(y, v, at.n, at.aligned);
}

#endif
