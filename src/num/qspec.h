/* SPDX-License-Identifier: Apache-2.0
 *
 * How a matrix is quantized, as data.  This is all that a backend is told: a recipe fills it, and a
 * backend never hears of recipes.
 */
#ifndef FP8CONV_NUM_QSPEC_H
#define FP8CONV_NUM_QSPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "num/bits.h"

enum fp8_format {
	FP8_E4M3, /* OCP's E4M3 ("fn"): max 448, no inf */
	FP8_E5M2, /* OCP's E5M2: max 57344 */
};
#define FP8_FORMAT_WORDS "e4m3|e5m2"

/* How the scale of a tile is stored: scale_inv as fp32, or as one exponent byte. */
enum scale_type { SCALE_F32, SCALE_E8M0 };

/* The words of qspec.pow2 for fp32 scales. */
#define SCALE_FMT_WORDS "float|ue8m0"

/* The arithmetic of fp32 scales that are not powers of two. */
enum scale_arith {
	ARITH_TE,	/* scale = FMAX / amax, code = x * scale, scale_inv = 1 / scale */
	ARITH_DEEPSEEK, /* scale_inv = amax / FMAX, code = x / scale_inv */
	ARITH_DEEPGEMM, /* scale_inv = max(amax, 1e-4) / FMAX, code = x * (1 / scale_inv) */
	ARITH_GIVEN,	/* delayed scaling: scales take the place of amaxes; not with pow2 */
};
#define SCALE_ARITH_WORDS "te|deepseek|deepgemm" /* ARITH_GIVEN is in no option and no file */

/* The rule for the exponent of an MX block (num/e8m0.h). */
enum mx_rule { MX_UP, MX_FLOOR, MX_EVEN };
#define MX_RULE_WORDS "up|floor|even"

/* The part of a weight that shares one scale_inv. */
enum granularity { GRANULARITY_TENSOR, GRANULARITY_CHANNEL, GRANULARITY_BLOCK, GRANULARITY_MX };
#define N_GRANULARITIES (GRANULARITY_MX + 1)

#define WHOLE ((size_t)0) /* the tile is as long as the matrix in this dimension */

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

/* Returns the granularity of a spec that a recipe has. */
NUM_INLINE enum granularity qspec_granularity(const struct qspec *spec)
{
	if (spec->scale_type == SCALE_E8M0)
		return GRANULARITY_MX;
	if (spec->tile.cols != WHOLE)
		return GRANULARITY_BLOCK;
	return spec->tile.rows == WHOLE ? GRANULARITY_TENSOR : GRANULARITY_CHANNEL;
}

/* Returns the number of tiles along a dimension of n elements: ceil(n / tile), 1 for WHOLE, 0 if n
 * is 0. */
NUM_INLINE size_t tile_count(size_t n, size_t tile)
{
	if (n == 0)
		return 0;
	return tile == WHOLE ? 1 : n / tile + (n % tile != 0);
}

/* Returns the bytes of one scale_inv. */
NUM_INLINE size_t scale_size(enum scale_type type)
{
	return type == SCALE_E8M0 ? 1 : 4;
}

#endif
