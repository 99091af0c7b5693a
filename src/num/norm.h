/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm in fp32, in an order that a vector unit and a thread block can keep:
 *
 * - A sum over a row has 128 lanes.  Lane l adds the elements l, l + 128, l + 256, ... to 0, one
 * after the other; norm_lanes_sum() adds up the lanes.
 * - LayerNorm: mu = sum(x) / cols; RMSNorm: mu = 0.
 * - rsigma = 1 / sqrt(sum((x - mu)^2) / cols + epsilon), a rounded square root and a rounded
 * division.
 * - y = gamma * ((x - mu) * rsigma), + beta where there is one.  gamma is 1 + gamma where it is
 * zero-centered.
 */
#ifndef FP8CONV_NUM_NORM_H
#define FP8CONV_NUM_NORM_H

#include <math.h>
#include <stddef.h>

#include "num/bits.h"

enum norm_kind { NORM_RMS, NORM_LAYER };

#define NORM_LANES 128

/* Overwrites the lanes. */
NUM_INLINE float norm_lanes_sum(float *lanes)
{
	for (int step = NORM_LANES / 2; step > 0; step /= 2) {
		for (int lane = 0; lane < step; lane++)
			lanes[lane] += lanes[lane + step];
	}
	return lanes[0];
}

/* What sqrtf() rounds is the IEEE 754 square root, on the GPU too (nvcc's default). */
NUM_INLINE float norm_rsigma(float sum_of_squares, size_t cols, float epsilon)
{
	return 1.0f / sqrtf(sum_of_squares / (float)cols + epsilon);
}

/* gamma: already 1 + gamma where that is wanted. */
NUM_INLINE float norm_apply(float x, float mu, float rsigma, float gamma)
{
	return gamma * ((x - mu) * rsigma);
}

#endif
