/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the AVX-512 files.  They are compiled for that instruction set: do not include headers
 * that define functions with external linkage.
 */
#ifndef FP8CONV_KERNELS_CPU_AVX512_AVX512_H
#define FP8CONV_KERNELS_CPU_AVX512_AVX512_H

#include <immintrin.h>

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

#endif
