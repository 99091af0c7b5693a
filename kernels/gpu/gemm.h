/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the GPU, by a library found at run time: D (m, n) = A (m, k) B (n, k)^T, all
 * row-major and in the memory of the GPU, with sums in fp32.  The operands are both bf16, both fp32
 * (multiplied as fp32), or FP8 with scales of these tiles, if the GPU and the library support them:
 *
 *	A, B                           order of scale_inv
 *	{WHOLE, WHOLE}, the same       one float
 *	{1, 128} or {128, 128}, not    SCALES_PADDED of num/scale_grid.h
 *	both {128, 128}
 *	{1, 32}, the same              SCALES_GEMM
 *
 * Or D += A^T B, where A (k, m) and B (k, n) are both bf16 or both fp32, and D is fp32.
 *
 * Order: gpu_gemm_supports(); gpu_gemm() for each product; device_wait().
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

/* An operand (rows, k). */
struct gpu_operand {
	const void *data;
	enum dtype dtype; /* DT_BF16, DT_F32, DT_F8_E4M3, DT_F8_E5M2 */
	size_t stride;	  /* elements from one row to the next */
	struct tile tile; /* FP8 */
	const void *scale_inv;
};

/* The output (m, n).  Codes (only for operands with the tile {WHOLE, WHOLE}) are fp8(v * scale),
 * and their scale_inv is written with them. */
struct gpu_product {
	void *data;
	enum dtype dtype; /* DT_BF16, DT_F32, DT_F8_E4M3, DT_F8_E5M2; of fp32 operands DT_F32 */
	size_t stride;	  /* elements from one row to the next */
	const float *scale;
	float *scale_inv; /* written: 1 / scale */
	float *history;	  /* raised to max |v|, ignoring NaN; or NULL */
};

enum gpu_gemm_form {
	GEMM_PRODUCT, /* D = A B^T */
	GEMM_SUM      /* D += A^T B */
};

struct gpu_gemm {
	enum gpu_gemm_form form;
	size_t m, n, k;
	struct gpu_operand a; /* (m, k); of GEMM_SUM (k, m) */
	struct gpu_operand b; /* (n, k); of GEMM_SUM (k, n) */
	struct gpu_product d;
	/* FP8, {WHOLE, WHOLE}: partial sums may keep only about 14 bits, on Hopper, which is faster
	 * there */
	bool fast;
	/* bf16 or fp32, GEMM_PRODUCT: the algorithm is one for all m, and splits no sum, so a row
	 * of D has the same bits whatever the others are */
	bool any_m;
};

/* Memory that the products of one stream use one after the other, taken from the stream as needed.
 * Zeroed at first and after device_begin(). */
struct gpu_gemm_space {
	void *workspace;
	size_t size; /* bytes */
	float *amax;
};

/* Takes the most that any product needs, so that later ones cannot lack it.  The stream remembers a
 * failure. */
void gpu_gemm_reserve(struct device_stream *stream, struct gpu_gemm_space *space);

/* Writes the name and version of the library to a text of size bytes.  ERR_SYSTEM if it is
 * missing. */
int gpu_gemm_library(char *text, size_t size, struct err *err);

/* Returns 0 if the calling thread's GPU and the library support products with an FP8 operand of
 * this tile and scale, in some shape; else fails as gpu_gemm_supports(). */
int gpu_gemm_takes(const struct qspec *spec, struct err *err);

/* Returns 0 if the calling thread's GPU and the library support this product, else ERR_USAGE with
 * the missing feature, or ERR_SYSTEM without a library.  Only the alignment of pointers is used. */
int gpu_gemm_supports(const struct gpu_gemm *g, struct err *err);

/* Adds the product to the stream and returns; with m or n 0 it adds nothing.  *g must be supported.
 * The stream remembers a failure.  The same values, shape and strides give the same bits, at any
 * rows of a larger matrix. */
void gpu_gemm(struct device_stream *stream, struct gpu_gemm_space *space, const struct gpu_gemm *g);

#ifdef __cplusplus
}
#endif

#endif
