/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices to FP8, and their amax.  A cast moves 3 bytes for an element of bf16: 2 read, 1 written (2 with both copies), and each
 * scale once; tensors and channels, whose amax comes first, are read twice.
 */
#include "operation.h"
#include "write.h"

template <typename T>
static void amax_elements(struct device_lane *lane, const struct matrix *x, struct tile tile, bool transposed, float *amax,
			  unsigned long long *counts)
{
	amax_launch(lane, elements_of<T>(x), x->rows, x->cols, tile, transposed, amax, counts);
}

void gpu_amax(struct device_lane *lane, const struct matrix *x, struct tile tile, bool transposed, float *amax,
	      unsigned long long *counts)
{
	if (x->dtype == DT_BF16)
		amax_elements<bf16>(lane, x, tile, transposed, amax, counts);
	else if (x->dtype == DT_F16)
		amax_elements<f16>(lane, x, tile, transposed, amax, counts);
	else
		amax_elements<float>(lane, x, tile, transposed, amax, counts);
}

void gpu_cast(struct device_lane *lane, const struct matrix *x, const struct qspec *spec, const float *amax,
	      const struct fp8_out *out, unsigned long long *counts)
{
	struct write_args a = { x->rows, x->cols, *spec, scale_limit(x->dtype, spec->tile), *out, amax, NULL, counts };

	if (x->dtype == DT_BF16)
		write_launch(lane, elements_of<bf16>(x), a);
	else if (x->dtype == DT_F16)
		write_launch(lane, elements_of<f16>(x), a);
	else
		write_launch(lane, elements_of<float>(x), a);
}
