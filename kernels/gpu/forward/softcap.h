/* SPDX-License-Identifier: Apache-2.0
 *
 * The soft cap of values: c tanh(x / c), in the steps of the CPU (kernels/cpu/forward/lanes.h).
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_SOFTCAP_H
#define FP8CONV_KERNELS_GPU_FORWARD_SOFTCAP_H

#include <gpu.h>
#include "num/exp.h"

static __device__ inline float softcapped(float x, float softcap)
{
	return softcap * (1.0f - 2.0f / (f32_exp(2.0f * (x / softcap)) + 1.0f));
}

#endif
