/* SPDX-License-Identifier: Apache-2.0
 *
 * Amax, number of non-finite values and histogram of an array, in one read: 4 bytes for each
 * element, and 4 more written if it is also rounded.  A few blocks share the array, so that few
 * atomics combine their results.
 */
#include "kernels/gpu/forward/float4_rows.h"
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/reduce.h"
#include "num/amax_bin.h"

#define LOADS	   4 /* of a thread at once */
#define CHUNK	   (THREADS * LOADS * 4)
#define MAX_BLOCKS 1024 /* about what a large GPU runs at once */

/* Returns the position of the thread's k-th four values in the chunk at first. */
static __device__ inline size_t chunk_at(size_t first, int k)
{
	return first + ((size_t)k * THREADS + threadIdx.x) * 4;
}

static __device__ inline float rounded(float v)
{
	return f32_is_nan(v) ? f32_from_bits(F32_NAN) : bf16_to_f32(bf16_from_f32(v));
}

/* Returns the sum over the block to the first thread.  Once in a kernel. */
static __device__ inline unsigned block_total(unsigned n)
{
	__shared__ unsigned of_warp[N_WARPS];

	for (int step = 16; step > 0; step /= 2)
		n += __shfl_xor_sync(GPU_ALL_LANES, n, step);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = n;
	__syncthreads();
	n = 0;
	for (int i = 0; i < N_WARPS; i++)
		n += of_warp[i];
	return n;
}

/* The statistics of a thread's values. */
struct magnitudes {
	unsigned max, n_nonfinite;

	__device__ void add(float v)
	{
		max = max_of(max, magnitude_bits(v));
		n_nonfinite += f32_magnitude(v) >= F32_INF;
	}
};

template <bool ROUND>
static __global__ void amax_values(float *x, size_t n, bool aligned, struct value_stats *stats)
{
	struct magnitudes found = { 0, 0 };
	float4 v[LOADS];

	for (size_t first = (size_t)blockIdx.x * CHUNK; first < n;
	     first += (size_t)gridDim.x * CHUNK) {
		GPU_UNROLL
		for (int k = 0; k < LOADS; k++)
			v[k] = fours_load(x + chunk_at(first, k), fours_left(chunk_at(first, k), n),
					  aligned);
		GPU_UNROLL
		for (int k = 0; k < LOADS; k++) {
			if (ROUND) {
				v[k] = fours_each(v[k], rounded);
				fours_store(x + chunk_at(first, k), v[k],
					    fours_left(chunk_at(first, k), n), aligned);
			}
			found.add(v[k].x);
			found.add(v[k].y);
			found.add(v[k].z);
			found.add(v[k].w);
		}
	}
	found.max = block_max(found.max);
	found.n_nonfinite = block_total(found.n_nonfinite);
	if (threadIdx.x > 0)
		return;
	atomicMax(reinterpret_cast<unsigned *>(&stats->amax), found.max);
	count_add(reinterpret_cast<unsigned long long *>(&stats->n_nonfinite), found.n_nonfinite);
}

static size_t blocks_for(size_t n)
{
	size_t n_blocks = (n + CHUNK - 1) / CHUNK;

	return n_blocks < MAX_BLOCKS ? n_blocks : MAX_BLOCKS;
}

void gpu_amax(struct device_stream *stream, const float *x, size_t n, struct value_stats *stats)
{
	if (n == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(amax_values<false>, blocks_for(n), THREADS, device_stream_native(stream),
		   const_cast<float *>(x), n, fours_aligned(x, 0), stats);
	device_launched(stream, "amax_values");
}

void gpu_round_amax(struct device_stream *stream, float *x, size_t n, struct value_stats *stats)
{
	if (n == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(amax_values<true>, blocks_for(n), THREADS, device_stream_native(stream), x, n,
		   fours_aligned(x, 0), stats);
	device_launched(stream, "amax_values");
}

/* A block counts in shared memory, because most values are in a few bins. */
static __global__ void histogram_count(const float *x, size_t n, unsigned long long *counts)
{
	__shared__ unsigned here[AMAX_BINS];

	for (unsigned i = threadIdx.x; i < AMAX_BINS; i += THREADS)
		here[i] = 0;
	__syncthreads();
	for (size_t first = (size_t)blockIdx.x * CHUNK; first < n;
	     first += (size_t)gridDim.x * CHUNK) {
		GPU_UNROLL
		for (int k = 0; k < LOADS * 4; k++) {
			size_t i = first + (size_t)k * THREADS + threadIdx.x;

			if (i < n)
				atomicAdd(&here[amax_bin(x[i])], 1u);
		}
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < AMAX_BINS; i += THREADS)
		count_add(&counts[2 * i], here[i]);
}

void gpu_histogram(struct device_stream *stream, const float *x, size_t n, uint64_t *counts)
{
	if (n == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(histogram_count, blocks_for(n), THREADS, device_stream_native(stream), x, n,
		   reinterpret_cast<unsigned long long *>(counts));
	device_launched(stream, "histogram_count");
}
