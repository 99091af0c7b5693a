/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of an activation of a matrix (num/activation.h), gated or not.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_ACTIVATION_SOURCE_H
#define FP8CONV_KERNELS_GPU_CAST_ACTIVATION_SOURCE_H

#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/load.h"

static __device__ GPU_CALL float activated_element(enum activation activation, float x)
{
	return activation_apply(activation, x);
}

struct activated {
	struct elements x, up;
	enum activation activation;
	bool gated;

	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		float by[GROUP];

		x.load(v, row, col, n);
		for (int i = 0; i < GROUP; i++)
			v[i] = i < n ? activated_element(activation, v[i]) : 0;
		if (!gated)
			return;
		up.load(by, row, col, n);
		for (int i = 0; i < GROUP; i++)
			v[i] = v[i] * by[i];
	}
};

static inline struct activated activated_of(const struct activation_args *args)
{
	return { elements_of(&args->x), elements_of(&args->up), args->activation,
		 args->up.data != NULL };
}

#endif
