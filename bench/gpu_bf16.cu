/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of kernels/gpu/cast/norm.cu and activation.cu with another end: bf16 in the place of
 * FP8.
 */
#include "gpu_bf16.h"

#include "kernels/gpu/cast/block128.h"

static __device__ inline unsigned bf16x2(float low, float high)
{
	unsigned pair;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
	return pair;
}

static __global__ void write_bf16(const __grid_constant__ struct gpu_source x, size_t rows,
				  size_t cols, uint16_t *y)
{
	struct region r;

	region_load(&r, x, rows, cols);
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		const float *v = r.v[k];
		uint4 packed = { bf16x2(v[0], v[1]), bf16x2(v[2], v[3]), bf16x2(v[4], v[5]),
				 bf16x2(v[6], v[7]) };

		if (region_has(&r, k) && r.n_cols == GROUP)
			*reinterpret_cast<uint4 *>(y + (r.row + (size_t)k * ROW_STEP) * cols +
						   r.col) = packed;
	}
}

static void launch(struct device_stream *stream, const struct gpu_source &x,
		   const struct matrix *of, uint16_t *y)
{
	GPU_LAUNCH(write_bf16, region_count(of->rows, of->cols), THREADS,
		   device_stream_native(stream), x, of->rows, of->cols, y);
	device_launched(stream, "write_bf16");
}

void bench_norm(struct device_stream *stream, const struct norm_args *args, uint16_t *y)
{
	launch(stream, source_of_norm(stream, args), &args->x, y);
}

void bench_activate(struct device_stream *stream, const struct activation_args *args, uint16_t *y)
{
	launch(stream, source_of_activation(args), &args->x, y);
}
