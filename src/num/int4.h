/* SPDX-License-Identifier: Apache-2.0
 *
 * Signed 4-bit integers as compressed-tensors packs them: value + 8 in four bits.  Element i of a
 * row is in bits 4 (i mod 8) of little-endian word i / 8, so that the low nibble of each byte is
 * the element with the even index.  Source: compressed-tensors 0.20, pack_quantized/helpers.py.
 */
#ifndef FP8CONV_NUM_INT4_H
#define FP8CONV_NUM_INT4_H

#include "num/bits.h"

/* Returns the value, -8 to 7, of the low four bits of code. */
NUM_INLINE float int4_to_f32(uint8_t code)
{
	return (float)((int)(code & 15) - 8);
}

#endif
