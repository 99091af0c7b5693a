/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting FP8 weights to read: pieces of whole tiles, small enough to stay in a cache.
 */
#ifndef FP8CONV_SOURCE_CUT_H
#define FP8CONV_SOURCE_CUT_H

#include "source/source.h"

/* A rectangle of whole tiles of one weight of a list. */
struct piece {
	size_t weight;
	struct region region; /* not empty, and in one matrix of a stack */
};

struct pieces {
	size_t n;
	struct piece *list;
};

/* The most codes that a piece of the unit has, where it may have `codes`: more if one tile, or a
 * row of those that are as long as the matrix, is larger. */
uint64_t piece_most(const struct unit *unit, uint64_t codes);

/* Adds the pieces of an FP8 unit, row by row.  Its source_scale has tile and all. */
void pieces_add(struct pieces *pieces, const struct unit *unit, size_t weight, uint64_t codes);

#endif
