/* SPDX-License-Identifier: Apache-2.0
 *
 * The positions of scale_inv.  A copy of a matrix is quantized along its rows.  The columnwise copy
 * of x (rows, cols) is that of its transpose (cols, rows), and the tile grid here is of that
 * transpose.  Sources: TransformerEngine, get_scale_shape() of Float8BlockQuantizer and
 * MXFP8Quantizer; cuBLAS, "1D Block Scaling Factors Layout"; fp8conv-recipes(7).
 */
#ifndef FP8CONV_NUM_SCALE_GRID_H
#define FP8CONV_NUM_SCALE_GRID_H

#include <string.h>

#include "num/bits.h"
#include "num/e8m0.h"
#include "num/qspec.h"

enum scale_order {
	SCALES_COMPACT, /* the tile grid, row-major: as on disk */
	SCALES_PADDED,	/* TransformerEngine's tensors in memory */
	SCALES_GEMM,	/* the same, with E8M0 swizzled for cuBLASLt */
};

/* The scale of tile (i, j) is element i * row_stride + j * col_stride of a tensor (rows, cols), or
 * element e8m0_swizzled(i, j, swizzled).  All other elements are padding. */
struct scale_grid {
	size_t rows, cols; /* as allocated */
	size_t row_stride, col_stride;
	size_t swizzled; /* padded tiles in a row; 0: not swizzled */
};

NUM_INLINE size_t round_up(size_t n, size_t multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

/* Returns the index of a block's scale in cuBLASLt's order: tiles of 128 rows and 4 blocks have 512
 * bytes; in a tile, the 32 rows of each quarter are 16 bytes apart and the four quarters side by
 * side. padded_cols: a multiple of 4. */
NUM_INLINE size_t e8m0_swizzled(size_t row, size_t block, size_t padded_cols)
{
	return (row / 128 * (padded_cols / 4) + block / 4) * 512 + row % 32 * 16 +
	       row % 128 / 32 * 4 + block % 4;
}

NUM_INLINE struct scale_grid scale_row_major(size_t rows, size_t cols)
{
	struct scale_grid l = { rows, cols, cols, 1, 0 };

	return l;
}

/* rows and cols: of the tensor, which is the transpose of the grid. */
NUM_INLINE struct scale_grid scale_col_major(size_t rows, size_t cols)
{
	struct scale_grid l = { rows, cols, 1, cols, 0 };

	return l;
}

/* E8M0: pads rows to 128 and blocks to 4; the columnwise tensor is the transpose. */
NUM_INLINE struct scale_grid scale_grid_mx(size_t rows, size_t cols, bool columnwise,
					   enum scale_order order)
{
	struct scale_grid l;

	rows = round_up(rows, 128);
	cols = round_up(cols, 4);
	l = columnwise ? scale_col_major(cols, rows) : scale_row_major(rows, cols);
	l.swizzled = order == SCALES_GEMM ? cols : 0;
	return l;
}

/* Returns the positions for the copy that is quantized along the rows of a matrix (rows, cols).
 * For a columnwise copy that matrix is the transpose. */
NUM_INLINE struct scale_grid scale_grid_of(const struct qspec *spec, size_t rows, size_t cols,
					   bool columnwise, enum scale_order order)
{
	size_t grid_rows = tile_count(rows, spec->tile.rows);
	size_t grid_cols = tile_count(cols, spec->tile.cols);

	if (order == SCALES_COMPACT || spec->tile.cols == WHOLE)
		return scale_row_major(grid_rows, grid_cols);
	if (spec->scale_type == SCALE_E8M0)
		return scale_grid_mx(grid_rows, grid_cols, columnwise, order);
	if (spec->tile.rows == 1) /* 1D blocks: stored transposed */
		return scale_col_major(grid_cols, round_up(grid_rows, 4));
	return scale_row_major(grid_rows, round_up(grid_cols, 4));
}

/* Returns the index of the scale of tile (i, j). */
NUM_INLINE size_t scale_index(const struct scale_grid *l, size_t i, size_t j)
{
	if (l->swizzled)
		return e8m0_swizzled(i, j, l->swizzled);
	return i * l->row_stride + j * l->col_stride;
}

/* Returns element i of an array of scales as fp32.  The array need not be aligned. */
NUM_INLINE float scale_grid_at(const void *scales, enum scale_type type, size_t i)
{
	float scale;

	if (type == SCALE_E8M0)
		return e8m0_to_f32(((const uint8_t *)scales)[i]);
	memcpy(&scale, (const char *)scales + 4 * i, 4);
	return scale;
}

#endif
