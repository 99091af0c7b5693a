/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of small matrices (attention_loops.h, chunk.h), as tiles whose sums stay in registers.
 * Each sum is one chain of fused multiply-adds, in the order of the summed values, whatever the
 * size of the tile: every instruction set gives the same bits.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_TILES_H
#define FP8CONV_KERNELS_CPU_FORWARD_TILES_H

#include "kernels/cpu/forward/lanes.h"

#define TILE_ROWS 4

/* The sums that registers hold: 16 vectors of 16, or 8 of 8 or 4. */
#if LANES == 16
#define TILE_VECTORS 4
#else
#define TILE_VECTORS 2
#endif

/* A product of matrices: c (m, n) = a (m, k) b (k, n), or += with `add`. Rows have strides. */
struct tiled {
	const float *a;
	size_t a_stride;
	const float *b;
	size_t b_stride;
	float *c;
	size_t c_stride;
	size_t k;
	bool add;
};

/* Computes `rows` rows and `vectors` vectors of columns, from row and col on. */
LANE_FN void tile(const struct tiled *p, size_t row, size_t col, size_t rows, size_t vectors)
{
	const float *a = p->a + row * p->a_stride, *b = p->b + col;
	float *c = p->c + row * p->c_stride + col;
	lanes sum[TILE_ROWS][TILE_VECTORS] = { { { 0 } } }, right[TILE_VECTORS];

	if (p->add) {
		UNROLL for (size_t i = 0; i < rows; i++) UNROLL for (size_t j = 0; j < vectors; j++)
			memcpy(&sum[i][j], c + i * p->c_stride + j * LANES, sizeof sum[i][j]);
	}
	for (size_t s = 0; s < p->k; s++, b += p->b_stride) {
		UNROLL for (size_t j = 0; j < vectors; j++)
			memcpy(&right[j], b + j * LANES, sizeof right[j]);
		UNROLL for (size_t i = 0; i < rows; i++)
		{
			lanes left = a[i * p->a_stride + s] - (lanes){ 0 };

			UNROLL for (size_t j = 0; j < vectors; j++) sum[i][j] =
				lanes_multiply_add(left, right[j], sum[i][j]);
		}
	}
	UNROLL for (size_t i = 0; i < rows; i++) UNROLL for (size_t j = 0; j < vectors; j++)
		memcpy(c + i * p->c_stride + j * LANES, &sum[i][j], sizeof sum[i][j]);
}

/* Computes as many tiles as fit columns [col, n).  Returns the column after them. */
LANE_FN size_t tiles_wide(const struct tiled *p, size_t col, size_t n, size_t vectors)
{
	for (; col + vectors * LANES <= n; col += vectors * LANES)
		tile(p, 0, col, TILE_ROWS, vectors);
	return col;
}

/* Computes m <= TILE_ROWS rows; n is a multiple of LANES. */
LANE_FN void tiles(const struct tiled *p, size_t m, size_t n)
{
	size_t col = 0;

	if (m == TILE_ROWS) {
		col = tiles_wide(p, col, n, TILE_VECTORS);
		col = tiles_wide(p, col, n, TILE_VECTORS / 2);
		col = tiles_wide(p, col, n, 1);
	}
	for (; col < n; col += LANES)
		for (size_t row = 0; row < m; row++)
			tile(p, row, col, 1, 1);
}

#endif
