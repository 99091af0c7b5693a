/* SPDX-License-Identifier: Apache-2.0
 *
 * The amax of tiles of any size, in one read.  A maximum does not depend on the order: blocks raise
 * it by atomics, on the bits of numbers that are not negative.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_AMAX_H
#define FP8CONV_KERNELS_GPU_CAST_AMAX_H

#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/block128.h"

/* The size of tiles, compared with regions. */
enum granule {
	ONE,	  /* the whole matrix */
	EACH_ROW, /* a row */
	SQUARE,	  /* 128 x 128: the region */
	ROW_128,  /* 1 x 128 */
	ROW_32,	  /* 1 x 32 */
	ANY,	  /* another size */
};

/* Not for ANY. */
template <enum granule G> static __device__ inline struct tile granule_tile()
{
	struct tile tile = { G == ONE	   ? WHOLE
			     : G == SQUARE ? REGION
					   : 1,
			     G == ROW_128 || G == SQUARE ? (size_t)128
			     : G == ROW_32		 ? 32
							 : WHOLE };

	return tile;
}

static inline enum granule granule_of(struct tile tile)
{
	if (tile.rows == WHOLE && tile.cols == WHOLE)
		return ONE;
	if (tile.rows == 1 && tile.cols == WHOLE)
		return EACH_ROW;
	if (tile.rows == REGION && tile.cols == REGION)
		return SQUARE;
	if (tile.rows == 1 && (tile.cols == 128 || tile.cols == 32))
		return tile.cols == 128 ? ROW_128 : ROW_32;
	return ANY;
}

static __device__ inline bool tile_begins(size_t at, size_t tile)
{
	return tile == WHOLE ? at == 0 : at % tile == 0;
}

static __device__ inline size_t tile_index(size_t at, size_t tile)
{
	return tile == WHOLE ? 0 : at / tile;
}

/* Raises amax by one thread for the whole block. */
static __device__ inline void amax_raise(float *amax, unsigned bits)
{
	if (threadIdx.x == 0)
		atomicMax(reinterpret_cast<unsigned *>(amax), bits);
}

static __device__ inline void amax_raise_rows(const struct region *r, const struct maxima *of,
					      unsigned *amax)
{
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		unsigned max = lanes_max(of->of[k], ROW_LANES);

		if (region_has(r, k) && threadIdx.x % ROW_LANES == 0)
			atomicMax(&amax[r->row + (size_t)k * ROW_STEP], max);
	}
}

static __device__ inline void amax_raise_columns(const struct region *r, unsigned *amax)
{
	GPU_UNROLL
	for (int c = 0; c < GROUP; c++) {
		unsigned max = 0;

		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k++)
			max = max_of(max, magnitude_bits(r->v[k][c]));
		max = max_of(max, __shfl_xor_sync(GPU_ALL_LANES, max, ROW_LANES));
		if (c < r->n_cols && threadIdx.x % 32 < ROW_LANES)
			atomicMax(&amax[r->col + c], max);
	}
}

static __device__ inline unsigned region_nonfinite(const struct region *r)
{
	unsigned n = 0;

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		GPU_UNROLL
		for (int c = 0; c < GROUP; c++)
			n += f32_magnitude(r->v[k][c]) >= F32_INF;
	}
	return n;
}

/* The amax of the tiles of a matrix (rows, cols), or of its transpose. */
struct amax_args {
	size_t rows, cols;
	struct tile tile;
	bool turned;		    /* of the transpose */
	float *amax;		    /* (tiles down, tiles across): raised */
	unsigned long long *counts; /* NULL: nothing is counted */
};

/* Raises the amax of each element's tile. */
static __device__ inline void amax_raise_any(const struct region *r, const struct amax_args *a)
{
	size_t n_across = tile_count(a->turned ? a->rows : a->cols, a->tile.cols);
	unsigned *amax = reinterpret_cast<unsigned *>(a->amax);

	GPU_LOOP
	for (int k = 0; k < N_ROWS; k++) {
		GPU_LOOP
		for (int c = 0; c < GROUP; c++) {
			size_t row = r->row + (size_t)k * ROW_STEP, col = r->col + c;
			size_t i = tile_index(a->turned ? col : row, a->tile.rows);
			size_t j = tile_index(a->turned ? row : col, a->tile.cols);

			if (region_has(r, k) && c < r->n_cols)
				atomicMax(&amax[i * n_across + j], magnitude_bits(r->v[k][c]));
		}
	}
}

template <enum granule G>
static __global__ void __launch_bounds__(THREADS, 2)
	amax_region(const __grid_constant__ struct gpu_source x,
		    const __grid_constant__ struct amax_args a)
{
	unsigned *bits = reinterpret_cast<unsigned *>(a.amax);
	struct region r;
	struct maxima max = {};

	region_load(&r, x, a.rows, a.cols);
	if (G != ANY)
		maxima_find(&max, r.v);
	if (G == ONE)
		amax_raise(a.amax, block_max(max.all));
	else if (G == ANY)
		amax_raise_any(&r, &a);
	else if (a.turned)
		amax_raise_columns(&r, bits);
	else
		amax_raise_rows(&r, &max, bits);
	if (a.counts && (G == ANY || max.has_nan || max.all == F32_INF))
		count_add(&a.counts[0], region_nonfinite(&r));
}

static inline void amax_launch(struct device_stream *stream, const struct gpu_source &x,
			       const struct amax_args &a)
{
	size_t n = region_count(a.rows, a.cols);
	enum granule granule = granule_of(a.tile);
	auto kernel = granule == ONE	    ? amax_region<ONE>
		      : granule == EACH_ROW ? amax_region<EACH_ROW>
					    : amax_region<ANY>;

	GPU_LAUNCH(kernel, n, THREADS, device_stream_native(stream), x, a);
	device_launched(stream, "amax_region");
}

#endif
