/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm in fp32.  16 threads, the lanes of its sum, work on a short row; a block
 * works on a long one, whose threads compute squares, which 16 of them add.  The block keeps the
 * row in registers if it is aligned and not too long; other rows are read two or three times, after
 * the first from the caches.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"

#define SHORT	      512		    /* columns */
#define WIDE	      (8 * 4 * THREADS)	    /* the most in registers */
#define ROWS_OF_SHORT (THREADS / SUM_LANES) /* rows of a block */

static __device__ inline float factor_of(const struct rms_norm_args &a, float squares)
{
	return 1.0f / sqrtf(squares / (float)a.n_cols + a.eps);
}

/* What is found in the values that are added, and in the rounded ones. */
enum { FOUND_ADD, FOUND_Y, N_FOUND };

/* Writes the elements of a row that belong to one of its 16 lanes. */
static __device__ inline void lane_put(const struct rms_norm_args &a, size_t row, float mean,
				       float factor, unsigned lane)
{
	const float *x = a.x.data + row * a.x.stride;
	float *y = a.y.data + row * a.y.stride;

	for (size_t i = lane; i < a.n_cols; i += SUM_LANES)
		y[i] = (x[i] - mean) * factor * (a.offset + (a.weight ? a.weight[i] : 0));
}

/* Writes a row, rounded if that is wanted; all threads of a block. */
static __device__ inline void row_put(const struct rms_norm_args &a, size_t row, float mean,
				      float factor, struct magnitudes *found)
{
	const float *x = a.x.data + row * a.x.stride;
	uint16_t *codes = a.rounded.codes;

	for (size_t i = threadIdx.x; i < a.n_cols; i += THREADS) {
		float v = (x[i] - mean) * factor * (a.offset + (a.weight ? a.weight[i] : 0));

		if (a.rounded.stats) {
			v = rounded(v);
			found[FOUND_Y].add(v);
		}
		if (codes)
			codes[row * a.n_cols + i] = (uint16_t)(f32_bits(v) >> 16);
		if (a.y.data)
			a.y.data[row * a.y.stride + i] = v;
	}
}

/* Returns element i of a row, of a sum that is made on the way. */
static __device__ inline float sum_put(const struct rms_norm_args &a, size_t row, size_t i,
				       struct magnitudes *found)
{
	float v = a.x.data[row * a.x.stride + i], more;

	if (!a.sum)
		return v;
	more = a.add[row * a.n_cols + i];
	found[FOUND_ADD].add(more);
	a.sum[row * a.x.stride + i] = v + more;
	return v + more;
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
		lane_put(a, row, mean, factor_of(a, sum), lane);
}

/* A block for a row, of any length.  A thread reads in the later passes what it wrote itself. */
static __global__ void rms_norm_any(struct rms_norm_args a)
{
	__shared__ struct sum_space space;
	struct value_stats *const stats[N_FOUND] = { a.add_stats, a.rounded.stats };
	struct magnitudes found[N_FOUND] = {};
	const float *x = a.x.data + blockIdx.x * a.x.stride;
	float mean = 0, sum;

	if (a.centered) {
		mean = block_sum(&space, a.n_cols,
				 [&a, &found](size_t i) {
					 return sum_put(a, blockIdx.x, i, found);
				 }) /
		       (float)a.n_cols;
		sum = block_sum(&space, a.n_cols,
				[x, mean](size_t i) { return (x[i] - mean) * (x[i] - mean); });
	} else {
		sum = block_sum(&space, a.n_cols, [&a, &found](size_t i) {
			float v = sum_put(a, blockIdx.x, i, found);

			return v * v;
		});
	}
	row_put(a, blockIdx.x, mean, factor_of(a, sum), found);
	magnitudes_raise<N_FOUND>(found, stats);
}

/* The place of fours k of this thread in its block's row, whose length is a multiple of 4.  Those
 * that do not exist are loaded where the first ones are, and neither looked at nor written. */
struct wide_place {
	unsigned col;
	bool exists;

	__device__ wide_place(const struct rms_norm_args &a, int k)
	{
		col = ((unsigned)k * THREADS + threadIdx.x) * 4;
		exists = col < a.n_cols;
		col = exists ? col : threadIdx.x * 4;
	}

	__device__ float4 load(const float *row) const
	{
		return *reinterpret_cast<const float4 *>(row + col);
	}
};

/* Writes four values of the block's row. */
static __device__ inline void wide_put(const struct rms_norm_args &a, unsigned col, float4 v,
				       struct magnitudes *found)
{
	float *y = a.y.data ? a.y.data + blockIdx.x * a.y.stride + col : NULL;

	if (a.rounded.stats)
		rounded_store(a.rounded, blockIdx.x * a.n_cols + col, y, v,
			      { blockIdx.x, col, 4, true }, found);
	else
		gpu_store(reinterpret_cast<float4 *>(y), v);
}

/* A row of a block whose threads have N fours of it each, all of them aligned. */
template <int N> struct wide_row {
	float4 v[N];

	/* Loads x, and what is added to it. */
	__device__ void load(const struct rms_norm_args &a, struct magnitudes *found)
	{
		size_t row = blockIdx.x * a.x.stride;
		float4 more[N];

		if (!wide_place(a, 0).exists)
			return;
		GPU_UNROLL
		for (int k = 0; k < N; k++)
			v[k] = wide_place(a, k).load(a.x.data + row);
		if (!a.sum)
			return;
		GPU_UNROLL
		for (int k = 0; k < N; k++)
			more[k] = wide_place(a, k).load(a.add + blockIdx.x * a.n_cols);
		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			struct wide_place at(a, k);

			if (!at.exists)
				continue;
			found[FOUND_ADD].add(more[k], 4);
			v[k] = fours_each(v[k], more[k], [](float w, float m) { return w + m; });
			gpu_store(reinterpret_cast<float4 *>(a.sum + row + at.col), v[k]);
		}
	}

	/* Returns the sum of f of each value. */
	template <typename F>
	__device__ float sum(const struct rms_norm_args &a, struct sum_space *space, F f) const
	{
		return block_sum_fours<N>(space, (unsigned)a.n_cols,
					  [this, f](int k) { return fours_each(v[k], f); });
	}

	__device__ void put(const struct rms_norm_args &a, float mean, float factor,
			    struct magnitudes *found) const;
};

template <int N>
__device__ void wide_row<N>::put(const struct rms_norm_args &a, float mean, float factor,
				 struct magnitudes *found) const
{
	float offset = a.offset;
	float4 weight[N] = {};

	if (!wide_place(a, 0).exists)
		return;
	GPU_UNROLL
	for (int k = 0; k < N && a.weight; k++)
		weight[k] = wide_place(a, k).load(a.weight);
	GPU_UNROLL
	for (int k = 0; k < N; k++) {
		struct wide_place at(a, k);

		if (at.exists)
			wide_put(a, at.col,
				 fours_each(v[k], weight[k],
					    [=](float w, float by) {
						    return (w - mean) * factor * (offset + by);
					    }),
				 &found[FOUND_Y]);
	}
}

template <int N> static __global__ void rms_norm_wide(struct rms_norm_args a)
{
	__shared__ struct sum_space space;
	struct value_stats *const stats[N_FOUND] = { a.add_stats, a.rounded.stats };
	struct magnitudes found[N_FOUND] = {};
	auto row = wide_row<N>();
	float mean = 0, sum;

	row.load(a, found);
	if (a.centered)
		mean = row.sum(a, &space, [](float v) { return v; }) / (float)a.n_cols;
	sum = row.sum(a, &space, [mean](float v) { return (v - mean) * (v - mean); });
	row.put(a, mean, factor_of(a, sum), found);
	magnitudes_raise<N_FOUND>(found, stats);
}

/* Is the row of each matrix aligned, and short enough for rms_norm_wide()? */
static bool is_wide(const struct rms_norm_args *a)
{
	return a->n_cols <= WIDE && a->n_cols % 4 == 0 && rows_aligned(a->x) &&
	       (!a->sum || fours_aligned(a->add, 0)) && (uintptr_t)a->weight % 16 == 0 &&
	       (!a->y.data || rows_aligned(a->y)) && codes_aligned(a->rounded, a->n_cols);
}

static void launch_wide(void *native, const struct rms_norm_args *args)
{
	if (args->n_cols <= WIDE / 4)
		GPU_LAUNCH(rms_norm_wide<2>, args->n_rows, THREADS, native, *args);
	else if (args->n_cols <= WIDE / 2)
		GPU_LAUNCH(rms_norm_wide<4>, args->n_rows, THREADS, native, *args);
	else
		GPU_LAUNCH(rms_norm_wide<8>, args->n_rows, THREADS, native, *args);
}

void gpu_rms_norm(struct device_stream *stream, const struct rms_norm_args *args)
{
	void *native;

	if (args->n_rows == 0 || args->n_cols == 0 || device_stream_stopped(stream))
		return;
	native = device_stream_native(stream);
	if (args->n_cols <= SHORT && !args->sum && !args->rounded.stats)
		GPU_LAUNCH(rms_norm_short, (args->n_rows + ROWS_OF_SHORT - 1) / ROWS_OF_SHORT,
			   THREADS, native, *args);
	else if (is_wide(args))
		launch_wide(native, args);
	else
		GPU_LAUNCH(rms_norm_any, args->n_rows, THREADS, native, *args);
	device_launched(stream, "rms_norm");
}
