/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of an upper triangle (n, n) for host_ops: panels of 16 rows, one after the other.  A
 * panel begins at its diagonal; each of its columns is 16 floats without gaps.  Panels and columns
 * are padded to whole panels, so no loop has a remainder.
 */
#ifndef FP8CONV_BACKEND_TRIANGLE_H
#define FP8CONV_BACKEND_TRIANGLE_H

#include <stddef.h>
#include <stdint.h>

#define TRIANGLE_PANEL 16 /* rows of a panel */
#define TRIANGLE_BLOCK 64 /* columns of a block, which are computed together */

struct triangle {
	float *data;
	size_t n; /* triangle_padded() */
};

/* Returns n rounded up to whole panels. */
static inline size_t triangle_padded(size_t n)
{
	return (n + TRIANGLE_PANEL - 1) / TRIANGLE_PANEL * TRIANGLE_PANEL;
}

/* Returns the floats of a triangle of n rows; of n = triangle_padded(n) below 2^32 there are fewer
 * than 2^63. */
static inline uint64_t triangle_count(size_t n)
{
	uint64_t padded = triangle_padded(n);

	return padded * (padded + TRIANGLE_PANEL) / 2;
}

/* Returns where column 0 of the panel that begins at `row` would be.  Panels of n, n - 16, ...
 * columns are before it, and its own first `row` columns are not there. */
static inline size_t triangle_panel(size_t n, size_t row)
{
	return row * n - row * (row + TRIANGLE_PANEL) / 2;
}

/* Returns the 16 elements of column `col` in the panel that begins at `row` <= col. */
static inline float *triangle_at(const struct triangle *t, size_t row, size_t col)
{
	return t->data + (triangle_panel(t->n, row) + col * TRIANGLE_PANEL);
}

#endif
