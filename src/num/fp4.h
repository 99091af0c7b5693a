/* SPDX-License-Identifier: Apache-2.0
 *
 * E2M1, the elements of MXFP4 and NVFP4: a sign, two bits of exponent with bias 1 and one bit of
 * mantissa; no inf and no NaN.  Two elements share a byte, and the low nibble is the element with
 * the even index.  Source: OCP "Microscaling Formats (MX)" 1.0, 5.3.3.
 */
#ifndef FP8CONV_NUM_FP4_H
#define FP8CONV_NUM_FP4_H

#include "num/bits.h"

#define MXFP4_GROUP 32 /* elements of a row that share an E8M0 scale */

/* Returns the value of the low four bits of code: 0, 0.5, 1, 1.5, 2, 3, 4 or 6, with its sign. */
NUM_INLINE float fp4_to_f32(uint8_t code)
{
	uint32_t sign = (uint32_t)(code & 8) << 28;
	uint32_t magnitude = code & 7;

	if (magnitude < 2) /* 0 and the subnormal number */
		return f32_from_bits(sign | (magnitude ? 126u << 23 : 0));
	return f32_from_bits(sign | ((magnitude << 22) + (126u << 23)));
}

#endif
