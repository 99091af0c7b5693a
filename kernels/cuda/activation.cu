/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations with FP8 output (num/activation.h), gated or not: 4 bytes read for an element of SwiGLU in bf16, 1 written.
 */
#include "operation.h"
#include "write.h"

template <typename T> struct activated {
	elements<T> x, up;
	enum activation activation;
	bool gated;

	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		float by[GROUP];

		x.load(v, row, col, n);
		for (int i = 0; i < n; i++)
			v[i] = activation_apply(activation, v[i]);
		if (!gated)
			return;
		up.load(by, row, col, n);
		for (int i = 0; i < n; i++)
			v[i] = v[i] * by[i];
	}
};

template <typename T>
static void activate_elements(struct device_lane *lane, const struct activation_args *args, const struct write_args &a)
{
	activated<T> y = { elements_of<T>(&args->x), elements_of<T>(&args->up), args->activation, args->up.data != NULL };

	write_launch(lane, y, a);
}

/* up, where there is one, is of the type of x. */
void gpu_activate(struct device_lane *lane, const struct activation_args *args, const struct qspec *spec,
		  const struct fp8_out *out, unsigned long long *counts)
{
	struct write_args a = { args->x.rows, args->x.cols, *spec, scale_limit(DT_F32, spec->tile), *out, NULL, NULL, counts };

	if (args->x.dtype == DT_BF16)
		activate_elements<bf16>(lane, args, a);
	else if (args->x.dtype == DT_F16)
		activate_elements<f16>(lane, args, a);
	else
		activate_elements<float>(lane, args, a);
}
