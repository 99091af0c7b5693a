/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile of a matrix, the cast of one element, and where a scale goes: shared by the scalar loops.
 */
#ifndef FP8CONV_KERNELS_CPU_CAST_TILE_SPAN_H
#define FP8CONV_KERNELS_CPU_CAST_TILE_SPAN_H

#include <string.h>

#include "backend/backend.h"
#include "num/scale.h"

/* A tile, clipped at the edges of the matrix. */
struct tile_span {
	size_t row, row_end;
	size_t col, col_end;
};

static inline size_t span_clip(size_t begin, size_t tile, size_t n)
{
	return tile == WHOLE || n - begin < tile ? n : begin + tile;
}

/* Returns the tile at (grid_row, grid_col). */
static inline struct tile_span tile_span(struct tile tile, size_t rows, size_t cols,
					 size_t grid_row, size_t grid_col)
{
	struct tile_span s = { .row = grid_row * tile.rows, .col = grid_col * tile.cols };

	s.row_end = span_clip(s.row, tile.rows, rows);
	s.col_end = span_clip(s.col, tile.cols, cols);
	return s;
}

/* Casts v and counts it in *stats as in struct quant_stats; stats NULL: does not count. */
static inline uint8_t cast_counted(enum fp8_format format, struct scaling scaling, float v,
				   struct quant_stats *stats)
{
	float scaled = scaling_apply(scaling, v);
	uint32_t magnitude = f32_magnitude(v);

	if (stats) {
		stats->nonfinite += magnitude >= F32_INF;
		stats->saturated += magnitude == F32_INF ||
				    (magnitude < F32_INF && fp8_saturates(format, scaled));
	}
	return fp8_from_f32(format, scaled);
}

/* Writes scale i of a grid, which may be unaligned. */
static inline void scale_inv_store(void *scale_inv, enum scale_type type, size_t i,
				   struct scaling scaling)
{
	if (type == SCALE_E8M0)
		((uint8_t *)scale_inv)[i] = scaling.e8m0;
	else
		memcpy((char *)scale_inv + 4 * i, &scaling.scale_inv, 4);
}

#endif
