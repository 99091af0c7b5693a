/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations with FP8 output (num/activation.h), gated or not: 4 bytes read for an element of SwiGLU in bf16, 1 written.
 */
#include "operation.h"
#include "write.h"

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

void gpu_activate(struct device_lane *lane, const struct activation_args *args, const struct qspec *spec,
		  const struct fp8_out *out, unsigned long long *counts)
{
	struct activated y = { elements_of(&args->x), elements_of(&args->up), args->activation, args->up.data != NULL };
	struct write_args a = { args->x.rows, args->x.cols, *spec, scale_limit(DT_F32, spec->tile), *out, NULL, NULL, counts };

	write_launch(lane, y, a);
}
