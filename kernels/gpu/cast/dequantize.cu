/* SPDX-License-Identifier: Apache-2.0
 *
 * FP8 back to BF16, F16 or F32.  A thread has 8 neighboring codes: 1 byte read and 2 written for
 * an element of bf16.
 */
#include "kernels/gpu/cast/amax.h"
#include "num/scale.h"
#include "kernels/gpu/cast/cast.h"

struct dequantize_args {
	struct quant_in q;
	void *y;
	size_t y_stride;
};

static __device__ inline void narrow(bf16 *to, float v)
{
	to->bits = bf16_from_f32(v);
}

static __device__ inline void narrow(f16 *to, float v)
{
	to->bits = f16_from_f32(v);
}

static __device__ inline void narrow(float *to, float v)
{
	*to = f32_is_nan(v) ? f32_from_bits(F32_NAN) : v;
}

static __device__ inline float scale_inv_read(const struct quant_in *q, size_t row, size_t col)
{
	size_t at = tile_index(row, q->tile.rows) * q->scale_stride + tile_index(col, q->tile.cols);

	if (q->scale_type == SCALE_E8M0)
		return e8m0_to_f32(static_cast<const uint8_t *>(q->scale_inv)[at]);
	return static_cast<const float *>(q->scale_inv)[at];
}

/* Loads the codes of a group at a multiple of 8 bytes, or those that exist. */
static __device__ inline void codes_load(uint8_t code[GROUP], const uint8_t *from, int n)
{
	if (n == GROUP && (uintptr_t)from % GROUP == 0) {
		uint2 packed = *reinterpret_cast<const uint2 *>(from);

		for (int i = 0; i < GROUP; i++)
			code[i] = (uint8_t)((i < 4 ? packed.x : packed.y) >> 8 * (i % 4));
		return;
	}
	for (int i = 0; i < GROUP; i++)
		code[i] = i < n ? from[i] : 0;
}

template <typename T> struct alignas(16) dequantized {
	T at[GROUP];
};

template <typename T>
static __device__ inline void group_store(T *to, const dequantized<T> *values, int n)
{
	if (n == GROUP && (uintptr_t)to % 16 == 0) {
		for (unsigned i = 0; i < sizeof *values / sizeof(uint4); i++)
			reinterpret_cast<uint4 *>(to)[i] =
				reinterpret_cast<const uint4 *>(values)[i];
		return;
	}
	for (int i = 0; i < n; i++)
		to[i] = values->at[i];
}

template <typename T> static __global__ void dequantize_groups(struct dequantize_args a)
{
	const struct quant_in *q = &a.q;
	size_t n_across = (q->cols + GROUP - 1) / GROUP;
	size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
	size_t row = i / n_across, col = i % n_across * GROUP;
	/* The scale of the group's first element, and of all its elements if tiles are as wide. */
	bool one_tile = q->tile.cols == WHOLE || q->tile.cols % GROUP == 0;
	uint8_t code[GROUP];
	dequantized<T> values = {};
	float scale_inv;
	int n;

	if (row >= q->rows)
		return;
	n = q->cols - col < GROUP ? (int)(q->cols - col) : GROUP;
	codes_load(code, q->codes + row * q->stride + col, n);
	scale_inv = scale_inv_read(q, row, col);
	for (int c = 0; c < n; c++) {
		if (!one_tile)
			scale_inv = scale_inv_read(q, row, col + c);
		narrow(&values.at[c], fp8_to_f32(q->format, code[c]) * scale_inv);
	}
	group_store(static_cast<T *>(a.y) + row * a.y_stride + col, &values, n);
}

void gpu_dequantize(struct device_stream *stream, const struct quant_in *q, enum dtype dtype,
		    void *y, size_t y_stride)
{
	struct dequantize_args a = { *q, y, y_stride };
	size_t n = (q->rows * ((q->cols + GROUP - 1) / GROUP) + THREADS - 1) / THREADS;
	void *native = device_stream_native(stream);

	if (dtype == DT_BF16)
		GPU_LAUNCH(dequantize_groups<bf16>, n, THREADS, native, a);
	else if (dtype == DT_F16)
		GPU_LAUNCH(dequantize_groups<f16>, n, THREADS, native, a);
	else
		GPU_LAUNCH(dequantize_groups<float>, n, THREADS, native, a);
	device_launched(stream, "dequantize_groups");
}
