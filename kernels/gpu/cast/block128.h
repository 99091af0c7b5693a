/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of 256 threads works on a region of a matrix with 128 x 128 elements.  16 adjacent
 * threads have a row, 8 columns each; a thread has every 16th row, 8 of them.  So a warp reads two
 * rows of 256 bytes (bf16), shuffles find the amax of 128 or 32 columns, and 64 elements for each
 * thread stay in registers from the read to the codes.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_BLOCK128_H
#define FP8CONV_KERNELS_GPU_CAST_BLOCK128_H

#include "kernels/gpu/cast/source.h"
#include "kernels/gpu/reduce.h"

#define REGION	  128
#define ROW_LANES (REGION / GROUP)	/* threads that share a row */
#define ROW_STEP  (THREADS / ROW_LANES) /* from one row of a thread to its next */
#define N_ROWS	  (REGION / ROW_STEP)	/* of a thread */

/* A thread's part of its block's region. */
struct region {
	size_t row;  /* of its first row; the next are ROW_STEP apart */
	size_t col;  /* of its first column */
	int n_cols;  /* columns that exist, 0 to GROUP */
	size_t rows; /* of the matrix */
	float v[N_ROWS][GROUP];
};

static inline size_t region_count(size_t rows, size_t cols)
{
	return (rows + REGION - 1) / REGION * ((cols + REGION - 1) / REGION);
}

static __device__ inline bool region_has(const struct region *r, int k)
{
	return r->row + (size_t)k * ROW_STEP < r->rows;
}

/* Returns how many of the thread's rows exist. */
static __device__ inline int region_rows(const struct region *r)
{
	int n = 0;

	while (n < N_ROWS && region_has(r, n))
		n++;
	return n;
}

/* Loads the elements; those that do not exist are 0, which changes no amax. */
static __device__ inline void region_load(struct region *r, const struct gpu_source &x, size_t rows,
					  size_t cols)
{
	size_t n_across = (cols + REGION - 1) / REGION;
	size_t left;

	r->rows = rows;
	r->row = blockIdx.x / n_across * REGION + threadIdx.x / ROW_LANES;
	r->col = blockIdx.x % n_across * REGION + threadIdx.x % ROW_LANES * GROUP;
	left = r->col < cols ? cols - r->col : 0;
	r->n_cols = left < GROUP ? (int)left : GROUP;
	if (x.kind == SOURCE_ELEMENTS && x.x.packs() && r->n_cols == GROUP &&
	    region_has(r, N_ROWS - 1)) {
		x.x.load_groups<N_ROWS>(r->v, r->row * x.x.stride + r->col,
					{ ROW_STEP * x.x.stride, N_ROWS });
		return;
	}
	if (x.makes_packed() && r->n_cols == GROUP && region_has(r, N_ROWS - 1)) {
		x.make_below<N_ROWS>(r->v, r->row, r->col, ROW_STEP);
		return;
	}
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++)
		x.load(r->v[k], r->row + (size_t)k * ROW_STEP, r->col,
		       region_has(r, k) ? r->n_cols : 0);
}

/* Returns the amax of a group as bits. */
static __device__ GPU_CALL unsigned group_max(struct element_group group)
{
	unsigned max = 0;

	for (int i = 0; i < GROUP; i++)
		max = max_of(max, magnitude_bits(group.v[i]));
	return max;
}

/* The amax of each group that a thread holds, and of all of them, as bits. */
struct maxima {
	unsigned of[N_ROWS];
	unsigned all;
	bool has_nan; /* among the elements; no amax sees it */
};

/* An instruction for each element that finds a NaN too; where one is, each group is looked at
 * again. */
static __device__ inline void maxima_find(struct maxima *max, const float v[N_ROWS][GROUP])
{
	float all = 0;

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		float of = gpu_max_magnitude(v[k][0], v[k][1]);

		GPU_UNROLL
		for (int i = 2; i < GROUP; i++)
			of = gpu_max_magnitude(of, v[k][i]);
		max->of[k] = f32_bits(of);
		all = gpu_max_magnitude(all, of);
	}
	max->all = f32_bits(all);
	max->has_nan = f32_is_nan(all);
	if (!max->has_nan)
		return;
	max->all = 0;
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		struct element_group group;

		GPU_UNROLL
		for (int i = 0; i < GROUP; i++)
			group.v[i] = v[k][i];
		max->of[k] = group_max(group);
		max->all = max_of(max->all, max->of[k]);
	}
}

#endif
