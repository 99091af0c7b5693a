/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes back to values, 8 at a time.
 */
#include "kernels/cpu/neon/neon.h"

#include "num/bits.h"

/* Returns v, but `then` in the 16-bit lanes where x is `value`. */
INLINE vec vec_set_equal16(vec v, vec x, short value, short then)
{
	uint16x8_t equal = vceqq_s16((int16x8_t)x, vdupq_n_s16(value));

	return (vec)vbslq_s16(equal, vdupq_n_s16(then), (int16x8_t)v);
}

/* Rounds to the nearest, and to even. */
INLINE vec_half vec_to_f16(vec_float v)
{
	return (vec_half)vcvt_f16_f32(v);
}

/* Stores the upper halves of a and b. */
INLINE void store_bf16(char *y, vec a, vec b)
{
	uint16x8_t words = vuzp2q_u16((uint16x8_t)a, (uint16x8_t)b);

	memcpy(y, &words, sizeof words);
}

#include "kernels/cpu/cast/dequantize_loops.h"
