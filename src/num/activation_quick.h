/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations of num/activation.h with the same bits in half of the instructions: no case of
 * the range, and a division from an approximate reciprocal.  tests/unit/test_activation_quick.c
 * compares all numbers of bf16 and f16, and `make prove` all of fp32.  For machines whose fmaf() is
 * an instruction.
 */
#ifndef FP8CONV_NUM_ACTIVATION_QUICK_H
#define FP8CONV_NUM_ACTIVATION_QUICK_H

#include <math.h>

#include "num/activation.h"

/* Returns the largest magnitude of x that activation_divisor() takes. */
NUM_INLINE float activation_quick_most(enum activation activation)
{
	return activation == ACT_GELU ? 9.0f : 80.0f;
}

/* f32_exp() for |x| <= 80: the result is far from the limits of fp32, so that 2^n is added to the
 * exponent.  A product that is exact may be fused with the sum that follows it. */
NUM_INLINE float f32_exp_quick(float x)
{
	const float to_integer = 0x1.8p23f;
	float shifted = x * 0x1.715476p0f + to_integer;
	float n = shifted - to_integer, r, p;

	r = fmaf(n, -0x1.62e4p-1f, x);
	r = r - n * 0x1.7f7d1cp-20f;
	p = f32_exp_of_rest(r);
	return f32_from_bits(f32_bits(p) + (f32_bits(shifted) << 23));
}

/* Returns 1 + e^-x, or with ACT_GELU 1 + e^-2u, for ACT_SILU, ACT_GELU and ACT_SIGMOID. */
NUM_INLINE float activation_divisor(enum activation activation, float x)
{
	float u = activation == ACT_GELU ? 2.0f * (x * (0.79788456f + 0.03567741f * x * x)) : x;

	return 1.0f + f32_exp_quick(-u);
}

/* Must quick_quotient() not get this divisor?  The reciprocal of 2 less one unit of the last place
 * is almost between two numbers.  That times a power of two counts where the quotient is the
 * reciprocal itself. */
NUM_INLINE bool activation_refuses(enum activation activation, float divisor)
{
	if (activation == ACT_SIGMOID)
		return (f32_bits(divisor) & 0x7FFFFF) == 0x7FFFFF;
	return divisor == 0x1.fffffep0f;
}

/* Returns a / b.  near: 1 / b within one unit of its last place.  The first correction rounds the
 * reciprocal, the second one the quotient (Markstein 1990). */
NUM_INLINE float quick_quotient(float a, float b, float near)
{
	float y = fmaf(near, fmaf(-b, near, 1.0f), near), q = a * y;

	return fmaf(fmaf(b, q, -a), -y, q); /* keeps the sign of a zero */
}

#endif
