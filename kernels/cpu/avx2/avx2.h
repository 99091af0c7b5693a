/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the AVX2 files.  They are compiled for that instruction set: do not include headers
 * that define functions with external linkage.
 */
#ifndef FP8CONV_KERNELS_CPU_AVX2_AVX2_H
#define FP8CONV_KERNELS_CPU_AVX2_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/cast/panel.h"

#define INLINE static inline __attribute__((always_inline))

extern row_cast *const avx2_casts[N_CAST_PATHS][N_SOURCES][N_FORMATS];
extern row_dequantize *const avx2_dequantizes[N_SOURCES][N_FORMATS];
extern row_error *const avx2_errors[N_SOURCES][N_FORMATS];

INLINE __m256i load256(const void *p)
{
	return _mm256_loadu_si256(p);
}

/* The vectors of cast/panel_loops.h and cast/dequantize_loops.h. */
#define VEC(name) _mm256_##name
#define ISA(name) avx2_##name

typedef __m256i vec;
typedef __m256 vec_float;
typedef __m128i vec_half;
typedef __m128 vec_half_float;

INLINE vec_half vec_part(vec v, int i)
{
	return i ? _mm256_extracti128_si256(v, 1) : _mm256_castsi256_si128(v);
}

#endif
