/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of the AVX-512 backend.  CFLAGS: -mavx512f -mavx512bw -mavx512vl -mavx512dq
 */
#include "kernels/cpu/avx512/avx512.h"

#define FOLDED 32 /* tiles */

INLINE vec fold8(const char *v);

INLINE bool vec_any(vec v)
{
	return _mm512_test_epi32_mask(v, v);
}

/* By the instruction for the minimum of eight. */
INLINE uint16_t vec_max16(vec v)
{
	__m256i half = _mm256_max_epu16(vec_part(v, 0), vec_part(v, 1));
	__m128i quarter =
		_mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
	__m128i min = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));

	return (uint16_t)~_mm_extract_epi16(min, 0);
}

INLINE vec fold_quarters(vec a, vec b)
{
	return _mm512_max_epu16(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

/* Returns the maxima of FOLDED tiles, in order. */
INLINE vec fold(const char *v)
{
	return fold_quarters(fold_quarters(fold8(v), fold8(v + 8 * LANES_SIZE)),
			     fold_quarters(fold8(v + 16 * LANES_SIZE), fold8(v + 24 * LANES_SIZE)));
}

#include "kernels/cpu/cast/panel_loops.h"

static const char *avx512_unusable(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx512f"))
		return "the CPU has no AVX-512";
	if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
	    !__builtin_cpu_supports("avx512dq"))
		return "the CPU's AVX-512 has no BW, VL and DQ";
	return NULL;
}

const struct backend backend_avx512 = {
	.name = "avx512",
	.summary = "AVX-512 F, BW, VL and DQ",
	.rank = 3,
	.unusable = avx512_unusable,
	PANEL_BACKEND,
	.quantize_fp4 = cpu_quantize_fp4,
	CPU_CAST_TRANSPOSE,
};
