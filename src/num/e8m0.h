/* SPDX-License-Identifier: Apache-2.0
 *
 * E8M0: one byte for the power of two 2^(byte - 127); 0xFF is NaN.  Also the three rules in use for
 * the exponent of an MX block.  Source: OCP "Microscaling Formats (MX)" 1.0, 5.4 and 6.3.  The rule
 * MX_UP is that of TransformerEngine, cuBLAS and ModelOpt: it gives the smallest byte with FMAX *
 * 2^(byte-127) >= amax for every positive fp32 amax but one (0x04600001 for E4M3, 0x07E00001 for
 * E5M2; tests/prove).
 */
#ifndef FP8CONV_NUM_E8M0_H
#define FP8CONV_NUM_E8M0_H

#include "num/bits.h"
#include "num/qspec.h"

#define E8M0_NAN 0xFF
#define E8M0_MAX 0xFE

/* Returns 2^(code - 127), the factor of a block's codes.  Code 0 gives a subnormal number. */
NUM_INLINE float e8m0_to_f32(uint8_t code)
{
	return code == E8M0_NAN ? f32_from_bits(F32_NAN) : f32_pow2(code - 127);
}

/* Returns 2^(127 - code), the factor of source values.  Code 254 gives a subnormal number. */
NUM_INLINE float e8m0_factor(uint8_t code)
{
	return code == E8M0_NAN ? f32_from_bits(F32_NAN) : f32_pow2(127 - code);
}

/* Returns the code of the smallest power of two >= v, for v >= 0.  A subnormal v above 2^-127 gives
 * 2^-126. */
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

/* Returns 1/FMAX as fp32, rounded to nearest.  A block's amax is multiplied by it, never divided by
 * FMAX. */
NUM_INLINE float e8m0_rcp_max(enum fp8_format format)
{
	return f32_from_bits(format == FP8_E4M3 ? 0x3B124925 : 0x37924925);
}

/* Returns the code of floor(log2(amax)) minus the exponent of FMAX. carry: the smallest mantissa
 * that raises the exponent by one.  It is 1 << 23 for a plain floor; for MX_EVEN it is the mantissa
 * from which rounding to the format's mantissa carries. */
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
	if (e == 0) { /* subnormal: normalized, because a margin may bring it into range */
		for (e = 1; !(bits & 0x800000); e--)
			bits <<= 1;
	}
	if ((bits & 0x7FFFFF) >= carry)
		e++;
	e += margin - fmax_exponent;
	return (uint8_t)(e < 0 ? 0 : e > E8M0_MAX ? E8M0_MAX : e);
}

/* Returns the code of a block's scale_inv from its amax by the given rule.  FMAX * 2^-margin takes
 * the place of FMAX, |margin| <= MARGIN_LIMIT.  A NaN gives E8M0_NAN, an inf E8M0_MAX. */
NUM_INLINE uint8_t e8m0_from_amax(float amax, enum fp8_format format, enum mx_rule rule, int margin)
{
	int fmax_exponent = format == FP8_E4M3 ? 8 : 15;
	int m_bits = format == FP8_E4M3 ? 3 : 2;
	uint32_t carry = 1u << 23;

	if (rule == MX_UP)
		return e8m0_round_up(amax * (e8m0_rcp_max(format) * f32_pow2(margin)));
	if (rule == MX_EVEN) /* 1.111|1: a tie with an odd mantissa rounds up */
		carry -= 1u << (22 - m_bits);
	return e8m0_floor(amax, fmax_exponent, margin, carry);
}

#endif
