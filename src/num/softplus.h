/* SPDX-License-Identifier: Apache-2.0
 *
 * log(1 + e^x) in fp32 with the same bits on every machine: one rounded operation at a time, no
 * libm.  The error is at most 2 ulp (tests/unit/test_executor_scan.c).  The polynomial is that of
 * Cephes' logf().  kernels/cpu/forward/lanes.h has the same steps for vectors.
 */
#ifndef FP8CONV_NUM_SOFTPLUS_H
#define FP8CONV_NUM_SOFTPLUS_H

#include "num/exp.h"

/* Returns log(1 + t) for 0 <= t <= 1; NaN for NaN. */
NUM_INLINE float f32_log1p_unit(float t)
{
	bool halved = t > 0.41421356f; /* sqrt(2) - 1: then log(1 + t) = log(2) + log(1 + f) */
	float f = halved ? (t - 1) * 0.5f : t, z = f * f, p;

	p = 7.0376836292e-2f;
	p = p * f - 1.1514610310e-1f;
	p = p * f + 1.1676998740e-1f;
	p = p * f - 1.2420140846e-1f;
	p = p * f + 1.4249322787e-1f;
	p = p * f - 1.6668057665e-1f;
	p = p * f + 2.0000714765e-1f;
	p = p * f - 2.4999993993e-1f;
	p = p * f + 3.3333331174e-1f;
	p = p * f * z;
	if (!halved)
		return f + (p - 0.5f * z);
	p = p - 2.12194440e-4f; /* log(2) in two parts */
	return f + (p - 0.5f * z) + 0.693359375f;
}

NUM_INLINE float f32_softplus(float x)
{
	float log = f32_log1p_unit(f32_exp(-f32_abs(x)));

	return x > 0 ? x + log : log;
}

#endif
