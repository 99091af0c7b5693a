/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the AVX-512 files.  They are compiled for that instruction set: do not include headers
 * that define functions with external linkage.
 */
#ifndef FP8CONV_KERNELS_CPU_AVX512_AVX512_H
#define FP8CONV_KERNELS_CPU_AVX512_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/cast/panel.h"

#define INLINE static inline __attribute__((always_inline))

extern row_cast *const avx512_casts[N_CAST_PATHS][N_SOURCES][N_FORMATS];
extern row_dequantize *const avx512_dequantizes[N_SOURCES][N_FORMATS];
extern row_error *const avx512_errors[N_SOURCES][N_FORMATS];

/* Return masks of the first n of 64, 32 and 16 lanes; n may be larger. */
INLINE __mmask64 first64(size_t n)
{
	return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

INLINE __mmask32 first32(size_t n)
{
	return n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
}

INLINE __mmask16 first16(size_t n)
{
	return (__mmask16)(n >= 16 ? 0xFFFF : (1u << n) - 1);
}

/* The vectors of cast/panel_loops.h and cast/dequantize_loops.h. */
#define VEC(name) _mm512_##name
#define ISA(name) avx512_##name

typedef __m512i vec;
typedef __m512 vec_float;
typedef __m256i vec_half;
typedef __m256 vec_half_float;

INLINE vec_half vec_part(vec v, int i)
{
	return i ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

#endif
