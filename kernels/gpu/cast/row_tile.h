/* SPDX-License-Identifier: Apache-2.0
 *
 * A strip is a tile of one row.  If no region holds it, adjacent threads do: as many as hold it
 * with 64 elements each in registers from the read to the codes, a power of two from part of a warp
 * to a block of 512.  The groups of a thread are so far apart that its neighbors' lie
 * between them, so a warp reads and writes whole lines.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_ROW_TILE_H
#define FP8CONV_KERNELS_GPU_CAST_ROW_TILE_H

#include "num/qspec.h"
#include "kernels/gpu/cast/block128.h"

#define STRIP_GROUPS	 8	      /* of a thread */
#define STRIP_LANES_MOST THREADS_MOST /* threads of a strip */
#define STRIP_MOST \
	((size_t)STRIP_LANES_MOST * STRIP_GROUPS * GROUP) /* elements of a strip, at most: 32768 */

/* How a matrix is cut into strips. */
struct strips {
	size_t rows, cols;
	size_t width;	 /* of each strip but the last one in a row */
	size_t n_across; /* strips in a row */
	unsigned lanes;	 /* threads of a strip, 2^log2_lanes; 0: not strips, or too wide */
	unsigned log2_lanes;
};

/* A thread's part of a strip. */
struct strip {
	size_t row, j; /* row and index of the strip */
	size_t col;    /* of the thread's first group */
	int left;      /* columns of the strip from col on; 0: no such strip */
	int step;      /* from one group to the next, in columns */
	int n_groups;  /* that exist */
	bool whole;    /* all of these have GROUP elements */
	float v[STRIP_GROUPS][GROUP];
};

/* Groups begin at multiples of GROUP: a tile is a multiple of GROUP, or a row has one tile. */
static inline struct strips strips_of(size_t rows, size_t cols, struct tile tile)
{
	bool one = tile.cols == WHOLE || tile.cols >= cols;
	struct strips cut = {
		rows, cols, one ? cols : tile.cols, tile_count(cols, tile.cols), 0, 0
	};

	if (tile.rows != 1 || cut.width > STRIP_MOST || (!one && cut.width % GROUP))
		return cut;
	cut.log2_lanes = 1;
	while (((size_t)STRIP_GROUPS * GROUP << cut.log2_lanes) < cut.width)
		cut.log2_lanes++;
	cut.lanes = 1U << cut.log2_lanes;
	return cut;
}

static inline unsigned strips_threads(const struct strips *cut)
{
	return cut->lanes > THREADS ? cut->lanes : THREADS;
}

static inline size_t strips_blocks(const struct strips *cut)
{
	size_t of_block = strips_threads(cut) / cut->lanes;

	return (cut->rows * cut->n_across + of_block - 1) / of_block;
}

static_assert(STRIP_GROUPS == N_ROWS, "maxima_find() serves strips too");

/* Returns how many elements of the thread's group k exist. */
static __device__ inline int strip_has(const struct strip *s, int k)
{
	int left = s->left - k * s->step;

	if (left < 0)
		return 0;
	return left < GROUP ? left : GROUP;
}

/* Loads the elements.  Those that do not exist are 0; in a whole strip, a group that does not
 * exist is the first group again. */
static __device__ inline void strip_load(struct strip *s, const struct gpu_source &x,
					 const struct strips *cut)
{
	size_t strip = (size_t)blockIdx.x * (blockDim.x >> cut->log2_lanes) +
		       (threadIdx.x >> cut->log2_lanes);
	size_t in_strip = (size_t)(threadIdx.x & (cut->lanes - 1)) * GROUP, begin, end;
	struct group_spread by;

	s->row = strip / cut->n_across;
	s->j = strip % cut->n_across;
	begin = s->j * cut->width;
	end = begin + cut->width < cut->cols ? begin + cut->width : cut->cols;
	s->col = begin + in_strip;
	s->left = s->row < cut->rows && s->col < end ? (int)(end - s->col) : 0;
	s->step = (int)(cut->lanes * GROUP);
	s->n_groups = ((s->left + GROUP - 1) / GROUP + (int)cut->lanes - 1) >> cut->log2_lanes;
	s->whole = s->left > 0 && s->left % GROUP == 0;
	by = { (size_t)s->step, s->n_groups };
	if (s->whole && x.kind == SOURCE_ELEMENTS && x.x.packs()) {
		x.x.load_groups<STRIP_GROUPS>(s->v, s->row * x.x.stride + s->col, by);
		return;
	}
	if (s->whole && x.makes_packed()) {
		x.make_beside<STRIP_GROUPS>(s->v, s->row, s->col, by);
		return;
	}
	GPU_UNROLL
	for (int k = 0; k < STRIP_GROUPS; k++) {
		int n = s->whole ? GROUP : strip_has(s, k);

		for (int i = 0; i < GROUP; i++)
			s->v[k][i] = 0;
		if (n)
			x.load(s->v[k], s->row, s->col + by.at(k), n);
	}
}

#endif
