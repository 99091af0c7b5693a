/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of the AVX2 backend.  CFLAGS: -mavx2 -mf16c
 */
#include "kernels/cpu/avx2/avx2.h"

#include <cpuid.h>

#define FOLDED 16 /* tiles */

INLINE vec fold8(const char *v);

INLINE bool vec_any(vec v)
{
	return !_mm256_testz_si256(v, v);
}

/* By the instruction for the minimum of eight. */
INLINE uint16_t vec_max16(vec v)
{
	__m128i quarter = _mm_max_epu16(vec_part(v, 0), vec_part(v, 1));
	__m128i min = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));

	return (uint16_t)~_mm_extract_epi16(min, 0);
}

/* Returns the maxima of FOLDED tiles, in order. */
INLINE vec fold(const char *v)
{
	vec a = fold8(v), b = fold8(v + 8 * LANES_SIZE);

	return _mm256_max_epu16(_mm256_permute2x128_si256(a, b, 0x20),
				_mm256_permute2x128_si256(a, b, 0x31));
}

#include "kernels/cpu/cast/panel_loops.h"

static const char *avx2_unusable(void)
{
	unsigned eax, ebx, ecx = 0, edx;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2"))
		return "the CPU has no AVX2";
	/* clang has no name for it. */
	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_F16C))
		return "the CPU has no F16C";
	return NULL;
}

const struct backend backend_avx2 = {
	.name = "avx2",
	.summary = "AVX2 and F16C",
	.rank = 2,
	.unusable = avx2_unusable,
	PANEL_BACKEND,
	.quantize_fp4 = cpu_quantize_fp4,
	CPU_CAST_TRANSPOSE,
};
