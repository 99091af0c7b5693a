/* SPDX-License-Identifier: Apache-2.0
 *
 * E8M0: one byte, the power of two 2^(byte - 127); 0xFF is NaN.  And the three rules in use for the
 * exponent of an MX block.  Source: OCP "Microscaling Formats (MX)" 1.0, 5.4 and 6.3; the round-up
 * rule is TransformerEngine's, cuBLAS's and ModelOpt's.  For every positive fp32 amax but one it
 * gives the smallest byte with FMAX * 2^(byte-127) >= amax (the one is 0x04600001 for E4M3,
 * 0x07E00001 for E5M2; tests/prove).
 */
#ifndef FP8CONV_NUM_E8M0_H
#define FP8CONV_NUM_E8M0_H

#include "num/bits.h"
#include "num/qspec.h"

#define E8M0_NAN 0xFF
#define E8M0_MAX 0xFE

/* 2^(code - 127): what a code of the block is multiplied by.  Code 0 is subnormal. */
NUM_INLINE float e8m0_to_f32(uint8_t code)
{
	return code == E8M0_NAN ? f32_from_bits(F32_NAN) : f32_pow2(code - 127);
}

/* 2^(127 - code): what a source value is multiplied by.  Code 254 gives a subnormal. */
NUM_INLINE float e8m0_factor(uint8_t code)
{
	return code == E8M0_NAN ? f32_from_bits(F32_NAN) : f32_pow2(127 - code);
}

/* The smallest power of two >= v, v >= 0.  A subnormal v above 2^-127 goes to 2^-126. */
NUM_INLINE uint8_t e8m0_round_up(float v)
{
	uint32_t bits = f32_magnitude(v);
	uint32_t exponent = bits >> 23;
	uint32_t mantissa = bits & 0x7FFFFF;

	if (bits > F32_INF)
		return E8M0_NAN;
	if (bits == F32_INF)
		return E8M0_MAX;
	if (mantissa != 0 && exponent != 0xFE && !(exponent == 0 && mantissa <= 0x400000))
		exponent++;
	return (uint8_t)exponent;
}

/* 1/FMAX as fp32, to nearest: a block's amax is multiplied by it, never divided. */
NUM_INLINE float e8m0_rcp_max(enum fp8_format format)
{
	return f32_from_bits(format == FP8_E4M3 ? 0x3B124925 : 0x37924925);
}

/* floor(log2(amax)) less the exponent of FMAX.  carry: the mantissa from which on the exponent is
 * one more (1 << 23 for plain floor; for `even` where rounding to the format's mantissa carries).
 */
NUM_INLINE uint8_t e8m0_floor(float amax, int fmax_exponent, int margin, uint32_t carry)
{
	uint32_t bits = f32_magnitude(amax);
	int e;

	if (bits > F32_INF)
		return E8M0_NAN;
	if (bits == 0)
		return 0;
	if (bits == F32_INF)
		return E8M0_MAX;
	e = (int)(bits >> 23);
	if (e == 0) { /* subnormal: normalised, for a margin may bring it back into range */
		for (e = 1; !(bits & 0x800000); e--)
			bits <<= 1;
	}
	if ((bits & 0x7FFFFF) >= carry)
		e++;
	e += margin - fmax_exponent;
	return (uint8_t)(e < 0 ? 0 : e > E8M0_MAX ? E8M0_MAX : e);
}

NUM_INLINE uint8_t e8m0_from_amax(float amax, enum fp8_format format, enum mx_rule rule, int margin)
{
	int fmax_exponent = format == FP8_E4M3 ? 8 : 15;
	int m_bits = format == FP8_E4M3 ? 3 : 2;
	uint32_t carry = 1u << 23;

	if (rule == MX_UP)
		return e8m0_round_up(amax * (e8m0_rcp_max(format) * f32_pow2(margin)));
	if (rule == MX_EVEN) /* 1.111|1: the tie is above an odd mantissa, so it goes up */
		carry -= 1u << (22 - m_bits);
	return e8m0_floor(amax, fmax_exponent, margin, carry);
}

#endif
