/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes back to values, 16 at a time.  CFLAGS: -mavx2 -mf16c
 */
#include "kernels/cpu/avx2/avx2.h"

#include "num/bits.h"

/* Returns v, but `then` in the 16-bit lanes where x is `value`. */
INLINE vec vec_set_equal16(vec v, vec x, short value, short then)
{
	return _mm256_blendv_epi8(v, _mm256_set1_epi16(then),
				  _mm256_cmpeq_epi16(x, _mm256_set1_epi16(value)));
}

/* Rounds to the nearest, and to even. */
INLINE vec_half vec_to_f16(vec_float v)
{
	return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Stores the upper halves of a and b. */
INLINE void store_bf16(char *y, vec a, vec b)
{
	vec words = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));

	_mm256_storeu_si256((void *)y, _mm256_permute4x64_epi64(words, 0xD8));
}

#include "kernels/cpu/cast/dequantize_loops.h"
