/* SPDX-License-Identifier: Apache-2.0
 *
 * The two FP8 formats of OCP "8-bit Floating Point Specification (OFP8)" 1.0, and the cast from
 * fp32: one rounding to nearest even, then saturation; every NaN becomes 0x7F.  The same as
 * cuda_fp8.hpp with __NV_SATFINITE and as cvt.rn.satfinite.  Proven over all 2^32 inputs
 * (tests/prove).
 */
#ifndef FP8CONV_NUM_FP8_H
#define FP8CONV_NUM_FP8_H

#include "num/bits.h"
#include "num/dtype.h"
#include "num/qspec.h"

#define FP8_NAN		0x7F
#define FP8_E4M3_MAX	448.0f	 /* 0x7E */
#define FP8_E5M2_MAX	57344.0f /* 0x7B */
#define FP8_E4M3_M_BITS 3
#define FP8_E5M2_M_BITS 2
#define FP8_E4M3_E_MIN	(-6)
#define FP8_E5M2_E_MIN	(-14)

NUM_INLINE float fp8_max(enum fp8_format format)
{
	return format == FP8_E4M3 ? FP8_E4M3_MAX : FP8_E5M2_MAX;
}

/* Returns the code of fp8_max(). */
NUM_INLINE uint8_t fp8_max_code(enum fp8_format format)
{
	return format == FP8_E4M3 ? 0x7E : 0x7B;
}

/* Return the FP8 format of DT_F8_E4M3 or DT_F8_E5M2, and the element type of a format. */
NUM_INLINE enum fp8_format fp8_of_dtype(enum dtype dtype)
{
	return dtype == DT_F8_E5M2 ? FP8_E5M2 : FP8_E4M3;
}

NUM_INLINE enum dtype dtype_of_fp8(enum fp8_format format)
{
	return format == FP8_E5M2 ? DT_F8_E5M2 : DT_F8_E4M3;
}

NUM_INLINE uint8_t fp8_narrow(float v, int m_bits, int e_min, uint32_t max_code)
{
	uint32_t magnitude = f32_magnitude(v);
	uint32_t sign = f32_bits(v) >> 24 & 0x80;
	uint32_t code;

	if (magnitude > F32_INF)
		return FP8_NAN;
	code = f32_narrow(magnitude, m_bits, e_min);
	return (uint8_t)(sign | (code > max_code ? max_code : code));
}

NUM_INLINE uint8_t fp8_e4m3_from_f32(float v)
{
	return fp8_narrow(v, FP8_E4M3_M_BITS, FP8_E4M3_E_MIN, 0x7E);
}

NUM_INLINE uint8_t fp8_e5m2_from_f32(float v)
{
	return fp8_narrow(v, FP8_E5M2_M_BITS, FP8_E5M2_E_MIN, 0x7B);
}

NUM_INLINE uint8_t fp8_from_f32(enum fp8_format format, float v)
{
	return format == FP8_E4M3 ? fp8_e4m3_from_f32(v) : fp8_e5m2_from_f32(v);
}

/* Does |v| round beyond the largest code?  464 is a tie and rounds down to the even 448; 61440
 * rounds up from the odd 57344. */
NUM_INLINE bool fp8_saturates(enum fp8_format format, float v)
{
	return format == FP8_E4M3 ? f32_abs(v) > 464.0f : f32_abs(v) >= 61440.0f;
}

/* Returns the exact fp32 value of a finite code without its sign. */
NUM_INLINE float fp8_widen(uint32_t magnitude, int m_bits, int e_min)
{
	uint32_t e = magnitude >> m_bits;

	if (e == 0)
		return (float)magnitude * f32_pow2(e_min - m_bits);
	return f32_from_bits((magnitude << (23 - m_bits)) + ((uint32_t)(e_min - 1 + 127) << 23));
}

NUM_INLINE float fp8_e4m3_to_f32(uint8_t code)
{
	uint32_t sign = (uint32_t)(code & 0x80) << 24;
	uint32_t magnitude = code & 0x7F;

	if (magnitude == 0x7F)
		return f32_from_bits(F32_NAN);
	return f32_from_bits(sign |
			     f32_bits(fp8_widen(magnitude, FP8_E4M3_M_BITS, FP8_E4M3_E_MIN)));
}

NUM_INLINE float fp8_e5m2_to_f32(uint8_t code)
{
	uint32_t sign = (uint32_t)(code & 0x80) << 24;
	uint32_t magnitude = code & 0x7F;

	if (magnitude > 0x7C)
		return f32_from_bits(F32_NAN);
	if (magnitude == 0x7C)
		return f32_from_bits(sign | F32_INF);
	return f32_from_bits(sign |
			     f32_bits(fp8_widen(magnitude, FP8_E5M2_M_BITS, FP8_E5M2_E_MIN)));
}

NUM_INLINE float fp8_to_f32(enum fp8_format format, uint8_t code)
{
	return format == FP8_E4M3 ? fp8_e4m3_to_f32(code) : fp8_e5m2_to_f32(code);
}

#endif
