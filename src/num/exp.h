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
	p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r;
	p = p + 1;
	half = (int)n / 2; /* 2^n may be out of the range of fp32 */
	return p * f32_pow2(half) * f32_pow2((int)n - half);
}

#endif
