/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the NEON files.  Every CPU of aarch64 has these instructions, so that no flag and no
 * test of the CPU is needed.
 */
#ifndef FP8CONV_KERNELS_CPU_NEON_NEON_H
#define FP8CONV_KERNELS_CPU_NEON_NEON_H

#include <arm_neon.h>

#include "kernels/cpu/cast/panel.h"

#define INLINE static inline __attribute__((always_inline))

extern row_cast *const neon_casts[N_CAST_PATHS][N_SOURCES][N_FORMATS];
extern row_dequantize *const neon_dequantizes[N_SOURCES][N_FORMATS];
extern row_error *const neon_errors[N_SOURCES][N_FORMATS];

/* The vectors of cast/panel_loops.h and cast/dequantize_loops.h, with x86's names of operations. */
#define VEC(name) neon_##name
#define ISA(name) neon_##name

typedef int64x2_t vec;
typedef float32x4_t vec_float;
typedef uint16x4_t vec_half;
typedef float32x2_t vec_half_float;

INLINE vec_half vec_part(vec v, int i)
{
	return i ? vget_high_u16((uint16x8_t)v) : vget_low_u16((uint16x8_t)v);
}

/* An operation of two vectors. */
#define NEON_OF_TWO(name, type, function)               \
	INLINE vec neon_##name(vec a, vec b)            \
	{                                               \
		return (vec)function((type)a, (type)b); \
	}

NEON_OF_TWO(max_epu16, uint16x8_t, vmaxq_u16)
NEON_OF_TWO(max_epu32, uint32x4_t, vmaxq_u32)
NEON_OF_TWO(subs_epu16, uint16x8_t, vqsubq_u16)
NEON_OF_TWO(unpacklo_epi16, uint16x8_t, vzip1q_u16)
NEON_OF_TWO(unpackhi_epi16, uint16x8_t, vzip2q_u16)
NEON_OF_TWO(unpacklo_epi32, uint32x4_t, vzip1q_u32)
NEON_OF_TWO(unpackhi_epi32, uint32x4_t, vzip2q_u32)
NEON_OF_TWO(unpacklo_epi64, uint64x2_t, vzip1q_u64)
NEON_OF_TWO(unpackhi_epi64, uint64x2_t, vzip2q_u64)

INLINE vec neon_set1_epi16(short value)
{
	return (vec)vdupq_n_s16(value);
}

INLINE vec neon_set1_epi32(int value)
{
	return (vec)vdupq_n_s32(value);
}

INLINE vec neon_slli_epi16(vec v, int n)
{
	return (vec)((uint16x8_t)v << n);
}

INLINE vec neon_slli_epi32(vec v, int n)
{
	return (vec)((uint32x4_t)v << n);
}

INLINE vec neon_cvtepu16_epi32(vec_half v)
{
	return (vec)vmovl_u16(v);
}

INLINE vec neon_cvtepi8_epi16(vec_half v)
{
	return (vec)vmovl_s8((int8x8_t)v);
}

INLINE vec_float neon_cvtph_ps(vec_half v)
{
	return vcvt_f32_f16((float16x4_t)v);
}

INLINE float64x2_t neon_cvtps_pd(vec_half_float v)
{
	return vcvt_f64_f32(v);
}

#endif
