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

struct round_bf16 {
	const float *x;
	uint16_t *y;

	__device__ void operator()(const struct fours &at) const
	{
		float4 v = fours_load(x + at.col, at.n, at.aligned);
		uint16_t code[] = { bf16_from_f32(v.x), bf16_from_f32(v.y), bf16_from_f32(v.z),
				    bf16_from_f32(v.w) };

		if (at.aligned && at.n == 4)
			gpu_store(reinterpret_cast<uint2 *>(y + at.col),
				  { code[0] | (unsigned)code[1] << 16,
				    code[2] | (unsigned)code[3] << 16 });
		else
			for (int i = 0; i < at.n; i++)
				y[at.col + i] = code[i];
	}
};

static void codes_alone(struct device_stream *stream, const struct round_args *args)
{
	uint16_t *y = args->rounded.codes;

	fours_launch(stream, "round_bf16", round_bf16{ args->x, y }, 1, args->n,
		     fours_aligned(args->x, 0) && (uintptr_t)y % 8 == 0);
}

void gpu_round(struct device_stream *stream, const struct round_args *args)
{
	if (args->n == 0 || device_stream_stopped(stream))
		return;
	if (!args->rounded.stats) {
		codes_alone(stream, args);
		return;
	}
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

void gpu_measure(struct device_stream *stream, const struct measure_args *args)
{
	size_t n_blocks = blocks_for(args->n);

	if (args->n == 0 || device_stream_stopped(stream))
		return;
	if (args->stats) {
		GPU_LAUNCH(amax_values, n_blocks, THREADS, device_stream_native(stream), args->x,
			   args->n, fours_aligned(args->x, 0), args->stats);
		device_launched(stream, "amax_values");
	}
	if (args->counts) {
		GPU_LAUNCH(histogram_count, n_blocks, THREADS, device_stream_native(stream),
			   args->x, args->n, reinterpret_cast<unsigned long long *>(args->counts));
		device_launched(stream, "histogram_count");
	}
}
