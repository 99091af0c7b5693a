/* SPDX-License-Identifier: Apache-2.0
 *
 * The bins of a histogram of magnitudes: the exponent and the three upper mantissa bits of an fp32.
 * Each lies within one binade.
 */
#ifndef FP8CONV_NUM_AMAX_BIN_H
#define FP8CONV_NUM_AMAX_BIN_H

#include "num/bits.h"

#define AMAX_BINS     2048
#define AMAX_BIN_BITS 20   /* of the mantissa, below the bin's number */
#define AMAX_BIN_INF  2040 /* infinity, and nothing else, is counted there; none lies above */

/* The bin of a value.  Not for NaN. */
NUM_INLINE unsigned amax_bin(float x)
{
	return f32_bits(x) >> AMAX_BIN_BITS & (AMAX_BINS - 1);
}

/* The smallest magnitude of bin b; that of b + 1 is just above its largest. */
NUM_INLINE float amax_bin_edge(unsigned b)
{
	return f32_from_bits(b << AMAX_BIN_BITS);
}

#endif
