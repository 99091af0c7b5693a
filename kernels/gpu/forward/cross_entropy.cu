/* SPDX-License-Identifier: Apache-2.0
 *
 * From logits to the terms of the cross-entropy: a block works on a row.  All threads compute
 * exponentials, and 16 add them.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/softcap.h"
#include "kernels/gpu/reduce.h"

static __global__ void cross_entropy_rows(struct cross_entropy_args a)
{
	__shared__ struct sum_space space;
	size_t row = blockIdx.x, label = a.labels[row];
	float *x = a.logits + row * a.n_cols;
	float max = -INFINITY, sum;

	for (size_t i = threadIdx.x; i < a.n_cols; i += THREADS) {
		float v = x[i];

		if (a.softcap > 0) {
			v = softcapped(v, a.softcap);
			x[i] = v;
		}
		max = larger(v, max);
	}
	max = block_largest(&space, max); /* after this all logits are capped */
	sum = block_sum(&space, a.n_cols, [x, max](size_t i) { return f32_exp(x[i] - max); });
	if (threadIdx.x > 0)
		return;
	a.log_sums[row] = max + logf(sum);
	if (label >= a.first && label - a.first < a.n_cols)
		a.label_logits[row] = x[label - a.first];
}

void gpu_cross_entropy(struct device_stream *stream, const struct cross_entropy_args *args)
{
	struct cross_entropy_args a = *args;

	if (a.n_rows == 0 || a.n_cols == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(cross_entropy_rows, a.n_rows, THREADS, device_stream_native(stream), a);
	device_launched(stream, "cross_entropy_rows");
}
