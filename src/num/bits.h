/* SPDX-License-Identifier: Apache-2.0
 *
 * fp32 as bits, and the one rounding that all narrow formats share.  No libc: nvcc compiles this
 * too.
 */
#ifndef FP8CONV_NUM_BITS_H
#define FP8CONV_NUM_BITS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define NUM_INLINE static __host__ __device__ inline
#else
#define NUM_INLINE static inline
#endif

#define F32_INF 0x7F800000u
#define F32_NAN 0x7FC00000u /* the only NaN that this program writes */

NUM_INLINE uint32_t f32_bits(float v)
{
	union {
		float f;
		uint32_t u;
	} pun = { v };

	return pun.u;
}

NUM_INLINE float f32_from_bits(uint32_t bits)
{
	union {
		uint32_t u;
		float f;
	} pun = { bits };

	return pun.f;
}

/* Returns the bits of |v|. They order as magnitudes do: inf above all finite values, NaN above
 * inf. */
NUM_INLINE uint32_t f32_magnitude(float v)
{
	return f32_bits(v) & 0x7FFFFFFF;
}

/* Returns a number that orders values: those below 0 first, NaN (without a sign) last; both zeros
 * have one. */
NUM_INLINE uint32_t f32_rank(float v)
{
	uint32_t bits = f32_bits(v + 0.0f);

	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

NUM_INLINE float f32_abs(float v)
{
	return f32_from_bits(f32_magnitude(v));
}

NUM_INLINE bool f32_is_nan(float v)
{
	return f32_magnitude(v) > F32_INF;
}

NUM_INLINE bool f32_is_inf(float v)
{
	return f32_magnitude(v) == F32_INF;
}

/* Is v, positive and finite, a power of two?  Subnormal powers, 2^-127 and below, count. */
NUM_INLINE bool f32_is_pow2(float v)
{
	uint32_t bits = f32_bits(v);

	return bits >> 23 ? (bits & 0x7FFFFF) == 0 : (bits & (bits - 1)) == 0;
}

/* Returns 2^e for -149 <= e <= 127. */
NUM_INLINE float f32_pow2(int e)
{
	return f32_from_bits(e < -126 ? 1u << (e + 149) : (uint32_t)(e + 127) << 23);
}

/* Rounds a finite |v|, given as bits, to nearest even in a format with m_bits mantissa bits and the
 * smallest normal number 2^e_min.  Returns the code that the format would have with an unlimited
 * exponent; the caller handles overflow. */
NUM_INLINE uint32_t f32_narrow(uint32_t magnitude, int m_bits, int e_min)
{
	int e = (int)(magnitude >> 23) - 127;
	uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
	int drop = 23 - m_bits + (e < e_min ? e_min - e : 0);
	uint32_t kept, rest, half;

	/* The value is less than half of the smallest subnormal; fp32's own subnormals return here
	 * too. */
	if (drop > 24)
		return 0;
	kept = significand >> drop;
	rest = significand & ((1u << drop) - 1);
	half = 1u << (drop - 1);
	if (rest > half || (rest == half && (kept & 1)))
		kept++;
	return kept + (e < e_min ? 0 : (uint32_t)(e - e_min) << m_bits);
}

#endif
