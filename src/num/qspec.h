/* SPDX-License-Identifier: Apache-2.0
 *
 * What a quantizer does to a matrix, as data: the only thing a backend is told.  A recipe fills it;
 * a backend never hears of recipes.
 */
#ifndef FP8CONV_NUM_QSPEC_H
#define FP8CONV_NUM_QSPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "num/bits.h"

enum fp8_format {
	FP8_E4M3, /* OCP "fn": max 448, no inf */
	FP8_E5M2, /* max 57344 */
};
#define FP8_FORMAT_WORDS "e4m3|e5m2"

/* How the scale of a tile is kept: scale_inv as fp32, or one exponent byte. */
enum scale_type { SCALE_F32, SCALE_E8M0 };

/* qspec.pow2 as a word, where the scale is fp32. */
#define SCALE_FMT_WORDS "float|ue8m0"

/* Who divides by what, where scales are fp32 and not powers of two. */
enum scale_arith {
	ARITH_TE,	/* scale = FMAX / amax, code = x * scale, scale_inv = 1 / scale */
	ARITH_DEEPSEEK, /* scale_inv = amax / FMAX, code = x / scale_inv */
	ARITH_DEEPGEMM, /* scale_inv = max(amax, 1e-4) / FMAX, code = x * (1 / scale_inv) */
	ARITH_GIVEN,	/* delayed scaling: scales stand in the place of the amaxes; not for pow2 */
};
#define SCALE_ARITH_WORDS "te|deepseek|deepgemm" /* ARITH_GIVEN: no option's, and in no file */

/* How the exponent of an MX block is found. */
enum mx_rule { MX_UP, MX_FLOOR, MX_EVEN };
#define MX_RULE_WORDS "up|floor|even"

/* What one scale_inv of a weight belongs to. */
enum granularity { GRANULARITY_TENSOR, GRANULARITY_CHANNEL, GRANULARITY_BLOCK, GRANULARITY_MX };
#define N_GRANULARITIES (GRANULARITY_MX + 1)

#define WHOLE ((size_t)0) /* a tile as long as the matrix in that dimension */

struct tile {
	size_t rows; /* or WHOLE */
	size_t cols; /* or WHOLE */
};

struct qspec {
	enum fp8_format format;
	struct tile tile;
	enum scale_type scale_type;
	bool pow2;		/* SCALE_F32: the scale is rounded down to a power of two */
	enum scale_arith arith; /* SCALE_F32 */
	enum mx_rule mx_rule;	/* SCALE_E8M0 */
	float amax_epsilon;	/* a smaller amax is raised to it */
	int margin;		/* FMAX * 2^-margin takes the place of FMAX */
};

NUM_INLINE bool qspec_equal(const struct qspec *a, const struct qspec *b)
{
	return a->format == b->format && a->tile.rows == b->tile.rows &&
	       a->tile.cols == b->tile.cols && a->scale_type == b->scale_type &&
	       a->pow2 == b->pow2 && a->arith == b->arith && a->mx_rule == b->mx_rule &&
	       a->margin == b->margin && a->amax_epsilon == b->amax_epsilon;
}

/* Of a spec that a recipe has. */
NUM_INLINE enum granularity qspec_granularity(const struct qspec *spec)
{
	if (spec->scale_type == SCALE_E8M0)
		return GRANULARITY_MX;
	if (spec->tile.cols != WHOLE)
		return GRANULARITY_BLOCK;
	return spec->tile.rows == WHOLE ? GRANULARITY_TENSOR : GRANULARITY_CHANNEL;
}

/* Tiles along a dimension of n elements: (n + tile - 1) / tile, 1 for WHOLE; 0 where n is 0. */
NUM_INLINE size_t tile_count(size_t n, size_t tile)
{
	if (n == 0)
		return 0;
	return tile == WHOLE ? 1 : n / tile + (n % tile != 0);
}

/* Bytes of one scale_inv. */
NUM_INLINE size_t scale_size(enum scale_type type)
{
	return type == SCALE_E8M0 ? 1 : 4;
}

#endif
