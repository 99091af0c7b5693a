/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm with FP8 output (num/norm.h has the order of the sums).  A first kernel
 * writes mu and rsigma of each row, which are also outputs; the kernels of cast.cu read x again,
 * from the second-level cache if x fits, and apply the norm.
 */
#include "kernels/gpu/cast/source.h"

static __device__ inline float canonical_nan(float v)
{
	return f32_is_nan(v) ? f32_from_bits(F32_NAN) : v;
}

/* Returns the sum of a row to all threads.  The row's lanes are the threads of its block, added as
 * in norm_lanes_sum(). */
static __device__ inline float row_sum(float mine)
{
	__shared__ float lanes[NORM_LANES];

	__syncthreads(); /* threads may still read the last sum */
	lanes[threadIdx.x] = mine;
	__syncthreads();
	for (unsigned step = NORM_LANES / 2; step > 0; step /= 2) {
		if (threadIdx.x < step)
			lanes[threadIdx.x] += lanes[threadIdx.x + step];
		__syncthreads();
	}
	return lanes[0];
}

static __global__ void norm_rows(struct elements x, size_t cols, struct moments m)
{
	size_t row = blockIdx.x;
	float sum = 0, mu = 0;

	if (m.kind == NORM_LAYER) {
		for (size_t col = threadIdx.x; col < cols; col += NORM_LANES)
			sum += x.at(row, col);
		mu = canonical_nan(row_sum(sum) / (float)cols);
		if (threadIdx.x == 0)
			m.mu[row] = mu;
	}
	sum = 0;
	for (size_t col = threadIdx.x; col < cols; col += NORM_LANES) {
		float deviation = x.at(row, col) - mu;

		sum += deviation * deviation;
	}
	sum = row_sum(sum);
	if (threadIdx.x == 0)
		m.rsigma[row] = canonical_nan(norm_rsigma(sum, cols, m.epsilon));
}

struct gpu_source source_of_norm(struct device_stream *stream, const struct norm_args *args)
{
	struct gpu_source source = source_of_elements(&args->x);

	source.kind = SOURCE_NORM;
	source.norm.gamma = elements_of(&args->gamma);
	source.norm.beta = elements_of(&args->beta);
	source.norm.has_beta = args->beta.data != NULL;
	source.norm.zero_centered_gamma = args->zero_centered_gamma;
	source.norm.m = { args->kind, args->epsilon, args->mu, args->rsigma };
	GPU_LAUNCH(norm_rows, args->x.rows, NORM_LANES, device_stream_native(stream), source.x,
		   args->x.cols, source.norm.m);
	device_launched(stream, "norm_rows");
	return source;
}

void gpu_norm(struct device_stream *stream, const struct norm_args *args, const struct qspec *spec,
	      const struct fp8_out *out, unsigned long long *counts)
{
	const struct gpu_source source = source_of_norm(stream, args);

	gpu_cast_source(stream, &source,
			{ args->x.rows, args->x.cols, *spec, scale_limit(DT_F32, spec->tile), *out,
			  NULL, NULL, counts });
}
