/* SPDX-License-Identifier: Apache-2.0
 *
 * What a transformer computes between its matrix products, in fp32, one thread at a time.  Every set of instructions gives
 * the same bits: sums run in 16 lanes (element i in lane i % 16), which are then added pairwise (8, 4, 2, 1 apart), and no
 * product is contracted with a sum.
 *
 * Matrices are row-major with rows close together, unless a stride (in elements) is given.
 */
#ifndef FP8CONV_BACKEND_COMPUTE_H
#define FP8CONV_BACKEND_COMPUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/activation.h"

/* Which columns of a row of scores count, and what is done with them before the softmax. */
struct softmax {
	float softcap;	   /* c tanh(x / c) first; 0: not */
	const float *sink; /* one more score, that takes its share of the sum and has no column; NULL: none */
};

struct compute {
	const char *name;
	bool (*usable)(void);

	/* max |x| of n values; NaN is ignored, inf counts.  *n_nonfinite += NaN and inf. */
	float (*amax)(const float *x, size_t n, uint64_t *n_nonfinite);

	/* counts[2 * (bits of |x| >> 20)]++: exponent and 3 bits of the mantissa, 2048 counts, each second one. */
	void (*histogram)(const float *x, size_t n, uint64_t *counts);

	/* y = bf16(x), to nearest even, as bf16 or as the fp32 of the same value. */
	void (*round_bf16)(const float *x, size_t n, uint16_t *y);
	void (*round_bf16_f32)(const float *x, size_t n, float *y);

	void (*add)(float *x, const float *y, size_t n);			   /* x += y */
	void (*add_scaled)(float *x, const float *y, float factor, size_t n);	   /* x += factor * y */
	void (*add_row)(float *x, const float *row, size_t n_rows, size_t n_cols); /* each row of x += row */

	/* y = x / sqrt(mean(x^2) + eps) * (offset + weight), row by row; y may be x.  Rows of x and y have strides. */
	void (*rms_norm)(const float *x, size_t x_stride, const float *weight, float offset, float eps, size_t n_rows,
			 size_t n_cols, float *y, size_t y_stride);

	/* Rotates pairs (i, i + n / 2) of the first n of each head's values by the angles whose cosines and sines are
	 * given (n / 2 of each).  One token: n_heads heads of head_dim values. */
	void (*rope)(float *x, size_t n_heads, size_t head_dim, const float *cosines, const float *sines, size_t n);

	/* A row of n scores to probabilities. */
	void (*softmax)(float *x, size_t n, const struct softmax *how);

	/* y = activation(gate) * up; y may be either.  ACT_SILU or ACT_GELU. */
	void (*gate)(enum activation activation, const float *gate, const float *up, size_t n, float *y);

	/* log(sum exp(x)) of n values. */
	float (*log_sum_exp)(const float *x, size_t n);
};

/* The best that this machine can run. */
const struct compute *compute_select(void);

#endif
