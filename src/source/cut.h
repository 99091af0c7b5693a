/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting FP8 weights to read: cuts of whole tiles, small enough to stay in a cache.
 */
#ifndef FP8CONV_SOURCE_CUT_H
#define FP8CONV_SOURCE_CUT_H

#include "source/source.h"

/* A rectangle of whole tiles of one weight of a list. */
struct cut {
	size_t weight;
	struct rect rect; /* not empty, and in one matrix of a stack */
};

struct cuts {
	size_t n;
	struct cut *list;
};

/* The next of the rectangles of n_rows x n_cols, fewer at the edges, that cover a unit row by row;
 * none lies in two matrices of a stack.  *rect is zeroed before the first call.  False: that was
 * the last one. */
bool rect_next(const struct unit *unit, uint64_t n_rows, uint64_t n_cols, struct rect *rect);

/* The most codes that a cut of the unit has, where it may have `codes`: more if one tile, or a
 * row of those that are as long as the matrix, is larger. */
uint64_t cut_max_codes(const struct unit *unit, uint64_t codes);

/* Adds the cuts of an FP8 unit, row by row.  Its source_scale has tile and all. */
void cut_unit(struct cuts *cuts, const struct unit *unit, size_t weight, uint64_t codes);

#endif
