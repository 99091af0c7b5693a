/* SPDX-License-Identifier: Apache-2.0
 *
 * FP8 back to BF16, F16 or F32, by regions as in block128.h: a thread has 8 neighboring codes of 8
 * rows, all of which it loads before it uses one.  1 byte is read and 2 are written for an element
 * of bf16, and each scale is read once for 8 elements, from the cache.
 */
#include "kernels/gpu/cast/amax.h"
#include "num/scale.h"
#include "kernels/gpu/cast/cast.h"

struct dequantize_args {
	struct quant_in q;
	void *y;
	size_t y_stride;
	unsigned n_across; /* regions in a row */
	/* Each 8 neighbors are aligned in both matrices, and have one scale, at
	 * [row >> row_shift][col >> col_shift]. */
	bool packs;
	unsigned row_shift, col_shift;
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

/* Any tiles, alignment and NaN. */
template <typename T>
static __device__ GPU_CALL void group_dequantize(const struct dequantize_args *a, size_t row,
						 size_t col)
{
	const struct quant_in *q = &a->q;
	/* The scale of the group's first element, and of all its elements if tiles are as wide. */
	bool one_tile = q->tile.cols == WHOLE || q->tile.cols % GROUP == 0;
	int n = q->cols - col < GROUP ? (int)(q->cols - col) : GROUP;
	uint8_t code[GROUP];
	dequantized<T> values = {};
	float scale_inv = scale_inv_read(q, row, col);

	codes_load(code, q->codes + row * q->stride + col, n);
	for (int c = 0; c < n; c++) {
		if (!one_tile)
			scale_inv = scale_inv_read(q, row, col + c);
		narrow(&values.at[c], fp8_to_f32(q->format, code[c]) * scale_inv);
	}
	group_store(static_cast<T *>(a->y) + row * a->y_stride + col, &values, n);
}

/* Sets bit 7 of a byte whose code is no finite number. */
template <enum fp8_format F> static __device__ inline unsigned nonfinite_codes(unsigned four)
{
	unsigned first = F == FP8_E4M3 ? 0x7F : 0x7C; /* of the codes of inf and NaN */

	return ((four & 0x7F7F7F7F) + (0x80 - first) * 0x01010101) & 0x80808080;
}

/* The scale_inv of the thread's rows of a region. */
static __device__ inline void scales_load(float scale_inv[N_ROWS], const struct dequantize_args &a,
					  size_t row, size_t col)
{
	size_t at[N_ROWS];

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++)
		at[k] = ((row + (size_t)k * ROW_STEP) >> a.row_shift) * a.q.scale_stride +
			(col >> a.col_shift);
	if (a.q.scale_type == SCALE_E8M0) {
		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k++)
			scale_inv[k] =
				e8m0_to_f32(static_cast<const uint8_t *>(a.q.scale_inv)[at[k]]);
		return;
	}
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++)
		scale_inv[k] = static_cast<const float *>(a.q.scale_inv)[at[k]];
}

/* Two values that are not NaN. */
static __device__ inline void pair_store(bf16 *to, float low, float high)
{
	*reinterpret_cast<unsigned *>(to) = gpu_bf16x2(low, high);
}

static __device__ inline void pair_store(f16 *to, float low, float high)
{
	*reinterpret_cast<unsigned *>(to) = gpu_f16x2(low, high);
}

static __device__ inline void pair_store(float *to, float low, float high)
{
	to[0] = low;
	to[1] = high;
}

template <typename T, enum fp8_format F>
static __device__ inline void codes_store(T *to, uint2 codes, float scale_inv)
{
	const unsigned word[] = { codes.x, codes.y };
	dequantized<T> values;

	GPU_UNROLL
	for (int i = 0; i < GROUP; i += 2) {
		float low, high;

		gpu_fp8x2_to_f32(F, (uint16_t)(word[i / 4] >> 8 * (i % 4)), &low, &high);
		pair_store(&values.at[i], low * scale_inv, high * scale_inv);
	}
	GPU_UNROLL
	for (unsigned i = 0; i < sizeof values / sizeof(uint4); i++)
		gpu_store_once(reinterpret_cast<uint4 *>(to) + i,
			       reinterpret_cast<const uint4 *>(&values)[i]);
}

/* Where all codes and scales of the thread are finite, no product is a NaN, so that the device's
 * conversions give the bits of num/float16.h. */
template <typename T, enum fp8_format F>
static __global__ void __launch_bounds__(THREADS, 3)
	dequantize_region(const __grid_constant__ struct dequantize_args a)
{
	size_t row = (size_t)(blockIdx.x / a.n_across) * REGION + threadIdx.x / ROW_LANES;
	size_t col = (size_t)(blockIdx.x % a.n_across) * REGION + threadIdx.x % ROW_LANES * GROUP;
	bool packs = a.packs && row + (N_ROWS - 1) * ROW_STEP < a.q.rows && col + GROUP <= a.q.cols;
	uint2 codes[N_ROWS];
	float scale_inv[N_ROWS];
	unsigned nonfinite = 0;

	if (packs) {
		const uint8_t *from = a.q.codes + row * a.q.stride + col;

		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k++)
			codes[k] = gpu_load_once(reinterpret_cast<const uint2 *>(
				from + (size_t)k * ROW_STEP * a.q.stride));
		scales_load(scale_inv, a, row, col);
		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k++)
			nonfinite |= nonfinite_codes<F>(codes[k].x) |
				     nonfinite_codes<F>(codes[k].y) |
				     (f32_magnitude(scale_inv[k]) >= F32_INF);
	}
	if (!packs || nonfinite) {
		GPU_LOOP
		for (int k = 0; k < N_ROWS; k++) {
			if (row + (size_t)k * ROW_STEP < a.q.rows && col < a.q.cols)
				group_dequantize<T>(&a, row + (size_t)k * ROW_STEP, col);
		}
		return;
	}
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++)
		codes_store<T, F>(static_cast<T *>(a.y) +
					  (row + (size_t)k * ROW_STEP) * a.y_stride + col,
				  codes[k], scale_inv[k]);
}

/* Returns the shift that divides by a tile's size; 64 if there is none. */
static unsigned tile_shift(size_t tile)
{
	unsigned shift = 0;

	if (tile == WHOLE)
		return 63;
	while (shift < 63 && (size_t)1 << shift < tile)
		shift++;
	return (size_t)1 << shift == tile ? shift : 64;
}

void gpu_dequantize(struct device_stream *stream, const struct quant_in *q, enum dtype dtype,
		    void *y, size_t y_stride)
{
	/* In the order of enum fp8_format. */
	static void (*const kernels[][2])(struct dequantize_args) = {
		{ dequantize_region<bf16, FP8_E4M3>, dequantize_region<bf16, FP8_E5M2> },
		{ dequantize_region<f16, FP8_E4M3>, dequantize_region<f16, FP8_E5M2> },
		{ dequantize_region<float, FP8_E4M3>, dequantize_region<float, FP8_E5M2> },
	};
	struct dequantize_args a = {
		*q, y, y_stride, 0, false, tile_shift(q->tile.rows), tile_shift(q->tile.cols)
	};
	int output = dtype == DT_BF16 ? 0 : dtype == DT_F16 ? 1 : 2;

	a.n_across = (unsigned)((q->cols + REGION - 1) / REGION);
	a.packs = a.row_shift < 64 && a.col_shift < 64 && (size_t)1 << a.col_shift >= GROUP &&
		  (uintptr_t)q->codes % GROUP == 0 && q->stride % GROUP == 0 &&
		  (uintptr_t)y % 16 == 0 && y_stride % GROUP == 0;
	GPU_LAUNCH(kernels[output][q->format], region_count(q->rows, q->cols), THREADS,
		   device_stream_native(stream), a);
	device_launched(stream, "dequantize_region");
}

struct scattered_args {
	struct fp8_scattered from;
	void *y;
	size_t y_row, y_col;   /* elements, for a row and a column of codes */
	unsigned n_line, n_by; /* codes along the lanes of a warp, and across */
};

static __device__ inline float scattered_scale(const struct fp8_scattered *from, size_t row,
					       size_t col)
{
	const struct quant_in *q = &from->q;
	size_t i = tile_index(row, q->tile.rows), j = tile_index(col, q->tile.cols);
	size_t at =
		from->grid_turned ? scale_index(&from->grid, j, i) : scale_index(&from->grid, i, j);

	switch (from->scale_dtype) {
	case DT_BF16:
		return bf16_to_f32(static_cast<const uint16_t *>(q->scale_inv)[at]);
	case DT_F16:
		return f16_to_f32(static_cast<const uint16_t *>(q->scale_inv)[at]);
	case DT_F32:
		return static_cast<const float *>(q->scale_inv)[at];
	default:
		return e8m0_to_f32(static_cast<const uint8_t *>(q->scale_inv)[at]);
	}
}

#define LINES 8 /* of a warp */

/* The lanes of a warp lie where the values are neighbors. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
	dequantize_scattered(const __grid_constant__ struct scattered_args a)
{
	const struct quant_in *q = &a.from.q;
	unsigned across = (a.n_line + 31) / 32;
	unsigned line = blockIdx.x % across * 32 + threadIdx.x % 32;
	unsigned by = (blockIdx.x / across * (THREADS / 32) + threadIdx.x / 32) * LINES;

	for (unsigned k = by; line < a.n_line && k < by + LINES && k < a.n_by; k++) {
		size_t row = a.from.turned ? line : k, col = a.from.turned ? k : line;
		float value = fp8_to_f32(q->format, q->codes[row * q->stride + col]);

		narrow(static_cast<T *>(a.y) + row * a.y_row + col * a.y_col,
		       value * scattered_scale(&a.from, row, col));
	}
}

void gpu_dequantize_scattered(struct device_stream *stream, const struct fp8_scattered *from,
			      enum dtype dtype, void *y, size_t y_stride)
{
	static void (*const kernels[])(struct scattered_args) = { dequantize_scattered<bf16>,
								  dequantize_scattered<f16>,
								  dequantize_scattered<float> };
	size_t n_line = from->turned ? from->q.rows : from->q.cols,
	       n_by = from->turned ? from->q.cols : from->q.rows, block = THREADS / 32 * LINES;
	const struct scattered_args a = { *from,
					  y,
					  from->turned ? 1 : y_stride,
					  from->turned ? y_stride : 1,
					  (unsigned)n_line,
					  (unsigned)n_by };

	GPU_LAUNCH(kernels[dtype == DT_BF16  ? 0
			   : dtype == DT_F16 ? 1
					     : 2],
		   (n_line + 31) / 32 * ((n_by + block - 1) / block), THREADS,
		   device_stream_native(stream), a);
	device_launched(stream, "dequantize_scattered");
}
