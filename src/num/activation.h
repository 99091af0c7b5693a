/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation functions in fp32, in a fixed order of operations.  The names are TransformerEngine's.
 * The gated forms (SwiGLU, GeGLU) multiply the result by a second number.
 */
#ifndef FP8CONV_NUM_ACTIVATION_H
#define FP8CONV_NUM_ACTIVATION_H

#include "num/softplus.h"

enum activation {
	ACT_SILU,     /* x sigmoid(x) */
	ACT_GELU,     /* the tanh form of Hendrycks & Gimpel 2016 */
	ACT_SRELU,    /* max(x, 0)^2 */
	ACT_SIGMOID,  /* 1 / (1 + e^-x) */
	ACT_SOFTPLUS, /* log(1 + e^x) */
	ACT_NONE,     /* x */
};

NUM_INLINE float silu(float x)
{
	return x / (1.0f + f32_exp(-x));
}

/* The GELU of x: 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), computed as x
 * sigmoid(2u), which does not cancel near u = -1. */
NUM_INLINE float gelu(float x)
{
	float u = x * (0.79788456f + 0.03567741f * x * x);

	return x / (1.0f + f32_exp(-2.0f * u));
}

/* Returns NaN for NaN. */
NUM_INLINE float srelu(float x)
{
	return x <= 0 ? 0 : x * x;
}

NUM_INLINE float sigmoid(float x)
{
	return 1.0f / (1.0f + f32_exp(-x));
}

/* min(y, limit), and y within `limit` from both sides; limit 0: y.  A NaN stays. */
NUM_INLINE float activation_at_most(float y, float limit)
{
	return limit > 0 && y > limit ? limit : y;
}

NUM_INLINE float activation_within(float y, float limit)
{
	return limit > 0 && y < -limit ? -limit : activation_at_most(y, limit);
}

NUM_INLINE float activation_apply(enum activation activation, float x)
{
	switch (activation) {
	case ACT_SILU:
		return silu(x);
	case ACT_GELU:
		return gelu(x);
	case ACT_SIGMOID:
		return sigmoid(x);
	case ACT_SOFTPLUS:
		return f32_softplus(x);
	case ACT_NONE:
		return x;
	case ACT_SRELU:
		break;
	}
	return srelu(x);
}

#endif
