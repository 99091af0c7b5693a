/* SPDX-License-Identifier: Apache-2.0
 *
 * Two elements at a time from their values to what a code is rounded from, and what one of them
 * counts as.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_PAIR_H
#define FP8CONV_KERNELS_GPU_CAST_PAIR_H

#include "num/scale.h"
#include <gpu.h>

/* v is not finite | scaled saturates << 16. */
static __device__ GPU_CALL unsigned element_count(enum fp8_format format, float v, float scaled)
{
	unsigned magnitude = f32_magnitude(v);
	unsigned saturated =
		magnitude == F32_INF || (magnitude < F32_INF && fp8_saturates(format, scaled));

	return (magnitude >= F32_INF) | saturated << 16;
}

struct pair {
	float low, high;
};

/* A division is long: one copy of it serves all. */
static __device__ GPU_CALL struct pair pair_divide(float factor, float low, float high)
{
	return { low / factor, high / factor };
}

/* Does a scaling divide?  Where its factor is 1, both ways give the same. */
static __device__ inline bool spec_divides(const struct qspec *spec)
{
	return spec->arith == ARITH_DEEPSEEK && !spec->pow2 && spec->scale_type != SCALE_E8M0;
}

template <bool DIVIDE>
static __device__ inline struct pair pair_scale(float factor, float low, float high)
{
	if (DIVIDE)
		return pair_divide(factor, low, high);
	return { low * factor, high * factor };
}

#endif
