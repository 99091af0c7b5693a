/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts FP8 weights for reading: rectangles of whole tiles that are small enough to stay in a cache.
 */
#ifndef FP8CONV_SOURCE_CUT_H
#define FP8CONV_SOURCE_CUT_H

#include "source/source.h"

/* A rectangle of whole tiles of one weight in a list. */
struct cut {
	size_t weight;
	struct rect rect; /* not empty, and in one matrix of a stack */
};

struct cuts {
	size_t n;
	struct cut *list;
};

/* Steps through the rectangles of n_rows x n_cols, smaller at the edges, that cover a unit row by
 * row; none spans two matrices of a stack.  The caller zeroes *rect before the first call.  Returns
 * false after the last one. */
bool rect_next(const struct unit *unit, uint64_t n_rows, uint64_t n_cols, struct rect *rect);

/* Returns the codes of a row of tiles as long as the matrix. */
uint64_t cut_row_codes(const struct unit *unit);

/* Returns the most codes of a cut of the unit with a limit of `codes`. It is above the limit where
 * one tile, or a row of tiles as long as the matrix, has more codes. */
uint64_t cut_max_codes(const struct unit *unit, uint64_t codes);

/* Adds the cuts of an FP8 unit, row by row.  unit->source_scale must be set, with its tile. */
void cut_unit(struct cuts *cuts, const struct unit *unit, size_t weight, uint64_t codes);

#endif
