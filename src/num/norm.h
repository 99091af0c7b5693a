/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm in fp32, in an order that vector units and thread blocks can keep:
 *
 * - A sum over a row has 128 lanes.  Lane l adds the elements l, l + 128, l + 256, ... to 0 in this
 *   order; norm_lanes_sum() adds the lanes.
 * - LayerNorm: mu = sum(x) / cols; RMSNorm: mu = 0.
 * - rsigma = 1 / sqrt(sum((x - mu)^2) / cols + epsilon), with a rounded square root and a rounded
 *   division.
 * - y = gamma * ((x - mu) * rsigma), + beta if there is one.  A zero-centered gamma is replaced by
 *   1 + gamma.
 */
#ifndef FP8CONV_NUM_NORM_H
#define FP8CONV_NUM_NORM_H

#include <math.h>
#include <stddef.h>

#include "num/bits.h"

enum norm_kind { NORM_RMS, NORM_LAYER };

#define NORM_LANES 128

/* Returns the sum of the NORM_LANES lanes, which it overwrites. */
NUM_INLINE float norm_lanes_sum(float *lanes)
{
	for (int step = NORM_LANES / 2; step > 0; step /= 2) {
		for (int lane = 0; lane < step; lane++)
			lanes[lane] += lanes[lane + step];
	}
	return lanes[0];
}

/* Returns rsigma.  sqrtf() is the IEEE 754 square root, on the GPU too (nvcc's default). */
NUM_INLINE float norm_rsigma(float sum_of_squares, size_t cols, float epsilon)
{
	return 1.0f / sqrtf(sum_of_squares / (float)cols + epsilon);
}

/* Returns y without beta.  gamma: the factor itself, 1 + gamma where it is zero-centered. */
NUM_INLINE float norm_apply(float x, float mu, float rsigma, float gamma)
{
	return gamma * ((x - mu) * rsigma);
}

#endif
