/* SPDX-License-Identifier: Apache-2.0
 *
 * The bins of a histogram of magnitudes.  The number of a bin is the exponent and the three upper
 * mantissa bits of an fp32, so each bin lies within one binade.
 */
#ifndef FP8CONV_NUM_AMAX_BIN_H
#define FP8CONV_NUM_AMAX_BIN_H

#include "num/bits.h"

#define AMAX_BINS     2048
#define AMAX_BIN_BITS 20   /* mantissa bits that a bin's number leaves out */
#define AMAX_BIN_INF  2040 /* the bin of infinity alone; no bin above it is used */

/* Returns the bin of a value that is not NaN. */
NUM_INLINE unsigned amax_bin(float x)
{
	return f32_bits(x) >> AMAX_BIN_BITS & (AMAX_BINS - 1);
}

/* Returns the smallest magnitude of bin b.  The largest is just below the smallest of bin b + 1. */
NUM_INLINE float amax_bin_edge(unsigned b)
{
	return f32_from_bits(b << AMAX_BIN_BITS);
}

#endif
