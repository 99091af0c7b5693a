/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the GPU, by a library found at run time: D (m, n) = A (m, k) B (n, k)^T, all
 * row-major and in the memory of the GPU, sums in fp32.  The operands are both bf16, both fp32
 * (multiplied as such), or FP8 with scales of these tiles, where the GPU and the library have them:
 *
 *	A, B                           scale_inv lies as
 *	{WHOLE, WHOLE}, the same       one float
 *	{1, 128} or {128, 128}, not    SCALES_PADDED of num/scale_grid.h
 *	both {128, 128}
 *	{1, 32}, the same              SCALES_GEMM
 */
#ifndef FP8CONV_KERNELS_GPU_GEMM_H
#define FP8CONV_KERNELS_GPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/gpu/device.h"
#include "num/dtype.h"
#include "num/qspec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* (rows, k). */
struct gpu_operand {
	const void *data;
	enum dtype dtype; /* DT_BF16, DT_F32, DT_F8_E4M3, DT_F8_E5M2 */
	size_t stride;	  /* elements from one row to the next */
	struct tile tile; /* FP8 */
	const void *scale_inv;
};

/* (m, n).  Codes (of tile {WHOLE, WHOLE} operands only) are fp8(v * scale), and the scale_inv that
 * belongs to them is written with them. */
struct gpu_product {
	void *data;
	enum dtype dtype; /* DT_BF16, DT_F32, DT_F8_E4M3, DT_F8_E5M2; of fp32 operands DT_F32 */
	size_t stride;	  /* elements from one row to the next */
	const float *scale;
	float *scale_inv; /* written: 1 / scale */
	float *history;	  /* raised to max |v| (NaN ignored); or NULL */
};

struct gpu_gemm {
	size_t m, n, k;
	struct gpu_operand a; /* (m, k) */
	struct gpu_operand b; /* (n, k) */
	struct gpu_product d;
	/* FP8, {WHOLE, WHOLE}: partial sums keep about 14 bits, on Hopper, where that is faster */
	bool fast;
};

/* What products of one stream use one after the other, taken from it as needed: zeroed at first and
 * after device_begin(). */
struct gpu_gemm_space {
	void *workspace;
	size_t size; /* bytes */
	float *amax;
};

/* The name of the library and its version, in a text of size bytes.  ERR_SYSTEM with what
 * is missing. */
int gpu_gemm_library(char *text, size_t size, struct err *err);

/* 0 where the calling thread's GPU and the library that was found have a product with an FP8
 * operand of this tile and scale, whatever its shape; else as gpu_gemm_supports(). */
int gpu_gemm_takes(const struct qspec *spec, struct err *err);

/* 0 where the calling thread's GPU and the library that was found have this product, else
 * ERR_USAGE with what they lack, or ERR_SYSTEM: there is no library.  Pointers are looked at for
 * their alignment only. */
int gpu_gemm_supports(const struct gpu_gemm *g, struct err *err);

/* Puts the product into the stream and returns; of m or n 0 there is none.  *g is one that
 * is supported.  What fails is remembered by the stream.  The same bits come of the same values,
 * shape and strides, in whichever rows of a larger matrix they lie. */
void gpu_gemm(struct device_stream *stream, struct gpu_gemm_space *space, const struct gpu_gemm *g);

#ifdef __cplusplus
}
#endif

#endif
