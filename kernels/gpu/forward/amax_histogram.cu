/* SPDX-License-Identifier: Apache-2.0
 *
 * Amax, number of non-finite values and histogram of an array, in one read: 4 bytes for each
 * element, and 2 or 6 more written if it is also rounded.  A few blocks share the array, so few
 * atomics combine their results.
 */
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"
#include "kernels/gpu/reduce.h"
#include "num/amax_bin.h"

#define LOADS 4 /* of a thread at once */
#define CHUNK (THREADS * LOADS * 4)

/* Returns the position of the thread's k-th four values in the chunk at first. */
static __device__ inline size_t chunk_at(size_t first, int k)
{
	return first + ((size_t)k * THREADS + threadIdx.x) * 4;
}

static __global__ void amax_values(const float *x, size_t n, bool aligned,
				   struct value_stats *stats)
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
		for (int k = 0; k < LOADS; k++)
			found.add(v[k], fours_left(chunk_at(first, k), n));
	}
	magnitudes_raise<1>(&found, &stats);
}

static __global__ void round_values(struct round_args a, bool aligned)
{
	struct magnitudes found = { 0, 0 };
	float4 v[LOADS];

	for (size_t first = (size_t)blockIdx.x * CHUNK; first < a.n;
	     first += (size_t)gridDim.x * CHUNK) {
		GPU_UNROLL
		for (int k = 0; k < LOADS; k++)
			v[k] = fours_load(a.x + chunk_at(first, k),
					  fours_left(chunk_at(first, k), a.n), aligned);
		GPU_UNROLL
		for (int k = 0; k < LOADS; k++) {
			size_t at = chunk_at(first, k);

			rounded_store(a.rounded, at, a.y ? a.y + at : NULL, v[k],
				      { 0, at, fours_left(at, a.n), aligned }, &found);
		}
	}
	magnitudes_raise<1>(&found, &a.rounded.stats);
}

static size_t blocks_for(size_t n)
{
	size_t n_blocks = (n + CHUNK - 1) / CHUNK;

	return n_blocks < OBSERVED_BLOCKS ? n_blocks : OBSERVED_BLOCKS;
}

void gpu_amax(struct device_stream *stream, const float *x, size_t n, struct value_stats *stats)
{
	if (n == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(amax_values, blocks_for(n), THREADS, device_stream_native(stream), x, n,
		   fours_aligned(x, 0), stats);
	device_launched(stream, "amax_values");
}

void gpu_round(struct device_stream *stream, const struct round_args *args)
{
	if (args->n == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(round_values, blocks_for(args->n), THREADS, device_stream_native(stream), *args,
		   fours_aligned(args->x, 0) && fours_aligned(args->y, 0) &&
			   codes_aligned(args->rounded, 0));
	device_launched(stream, "round_values");
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
