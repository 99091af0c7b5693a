/* SPDX-License-Identifier: Apache-2.0
 *
 * e^x in fp32 with the same bits on every machine: one rounded operation at a time, no libm.  The
 * error is at most 1.1 ulp where the exact value is a normal number
 * (tests/unit/test_cast_transpose.c).  The polynomial is that of Cephes' expf().
 * kernels/cpu/forward/lanes.h has the same steps for vectors.
 */
#ifndef FP8CONV_NUM_EXP_H
#define FP8CONV_NUM_EXP_H

#include "num/bits.h"

/* e^r for |r| <= ln(2) / 2, what is left of x behind the multiple of ln 2. */
NUM_INLINE float f32_exp_of_rest(float r)
{
	float p = 1.9875691500e-4f;

	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r;
	return p + 1;
}

NUM_INLINE float f32_exp(float x)
{
	const float to_integer = 0x1.8p23f; /* added and subtracted: rounds to nearest even */
	float n, r, p;
	int half;

	if (f32_is_nan(x))
		return f32_from_bits(F32_NAN);
	if (x > 89)
		return f32_from_bits(F32_INF);
	if (x < -104)
		return 0;
	n = (x * 0x1.715476p0f + to_integer) - to_integer; /* log2(e) */
	r = x - n * 0x1.62e4p-1f;			   /* ln 2 in two parts; exact */
	r = r - n * 0x1.7f7d1cp-20f;
	p = f32_exp_of_rest(r);
	half = (int)n / 2; /* 2^n may be out of the range of fp32 */
	return p * f32_pow2(half) * f32_pow2((int)n - half);
}

/* e^x within 0.502 ulp, with the steps of the expf() of Arm's optimized routines, which is that of
 * glibc: where a choice depends on it, sums and limits do not hide an ulp. */
NUM_INLINE float f32_exp_fine(float x)
{
	/* clang-format off */
	static const double powers[32] = { /* 2^(i / 32) */
		0x1.0000000000000p0, 0x1.059b0d3158574p0, 0x1.0b5586cf9890fp0, 0x1.11301d0125b51p0,
		0x1.172b83c7d517bp0, 0x1.1d4873168b9aap0, 0x1.2387a6e756238p0, 0x1.29e9df51fdee1p0,
		0x1.306fe0a31b715p0, 0x1.371a7373aa9cbp0, 0x1.3dea64c123422p0, 0x1.44e086061892dp0,
		0x1.4bfdad5362a27p0, 0x1.5342b569d4f82p0, 0x1.5ab07dd485429p0, 0x1.6247eb03a5585p0,
		0x1.6a09e667f3bcdp0, 0x1.71f75e8ec5f74p0, 0x1.7a11473eb0187p0, 0x1.82589994cce13p0,
		0x1.8ace5422aa0dbp0, 0x1.93737b0cdc5e5p0, 0x1.9c49182a3f090p0, 0x1.a5503b23e255dp0,
		0x1.ae89f995ad3adp0, 0x1.b7f76f2fb5e47p0, 0x1.c199bdd85529cp0, 0x1.cb720dcef9069p0,
		0x1.d5818dcfba487p0, 0x1.dfc97337b9b5fp0, 0x1.ea4afa2a490dap0, 0x1.f50765b6e4540p0,
	};
	/* clang-format on */
	const double to_integer = 0x1.8p52, n = 32;
	double z, k, r;
	int power;

	if (f32_is_nan(x))
		return f32_from_bits(F32_NAN);
	if (x > 89)
		return f32_from_bits(F32_INF);
	if (x < -104)
		return 0;
	z = x * (0x1.71547652b82fep0 * n); /* log2(e) */
	k = (z + to_integer) - to_integer;
	r = z - k;
	z = (0x1.c6af84b912394p-5 / n / n / n) * r + 0x1.ebfce50fac4f3p-3 / n / n;
	z = z * (r * r) + ((0x1.62e42ff0c52d6p-1 / n) * r + 1);
	power = ((int)k - ((int)k & 31)) / 32;
	z = z * powers[(int)k & 31] * (double)f32_pow2(power / 2);
	return (float)(z * (double)f32_pow2(power - power / 2));
}

#endif
