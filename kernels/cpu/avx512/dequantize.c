/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes back to values, 32 at a time.  CFLAGS: -mavx512f -mavx512bw -mavx512vl -mavx512dq
 */
#include "kernels/cpu/avx512/avx512.h"

#include "num/bits.h"

/* Returns v, but `then` in the 16-bit lanes where x is `value`. */
INLINE vec vec_set_equal16(vec v, vec x, short value, short then)
{
	return _mm512_mask_mov_epi16(v, _mm512_cmpeq_epi16_mask(x, _mm512_set1_epi16(value)),
				     _mm512_set1_epi16(then));
}

/* Rounds to the nearest, and to even. */
INLINE vec_half vec_to_f16(vec_float v)
{
	return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Stores the upper halves of a and b. */
INLINE void store_bf16(char *y, vec a, vec b)
{
	_mm256_storeu_si256((void *)y, _mm512_cvtepi32_epi16(_mm512_srli_epi32(a, 16)));
	_mm256_storeu_si256((void *)(y + 32), _mm512_cvtepi32_epi16(_mm512_srli_epi32(b, 16)));
}

#include "kernels/cpu/cast/dequantize_loops.h"
