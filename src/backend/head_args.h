/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the operations of executor.h on logits.  All pointers are of the executor's
 * memory.
 */
#ifndef FP8CONV_BACKEND_HEAD_ARGS_H
#define FP8CONV_BACKEND_HEAD_ARGS_H

#include <stddef.h>
#include <stdint.h>

/* The loss: from logits to the terms of the cross-entropy. */
struct cross_entropy_args {
	/* (n_rows, n_cols): columns [first, first + n_cols) of a wider matrix; capped in place */
	float *logits;
	size_t n_rows, n_cols, first;
	float softcap;		/* 0: no cap */
	const uint32_t *labels; /* (n_rows) */
	float *log_sums;	/* (n_rows): written, log(sum exp) of each row */
	float *label_logits;	/* (n_rows): written where the label is one of the columns */
};

/* Sums over some columns of the logits p and q of one row. */
struct divergence_sums {
	float max_p, max_q;	 /* the largest logits */
	uint32_t top_p, top_q;	 /* their columns; of equal ones the first */
	double sum_p, sum_q;	 /* of exp(p - max_p); of exp(q - max_q) */
	double cross_p, cross_q; /* of exp(p - max_p) (p - q); of exp(q - max_q) (q - p) */
};

/* The divergence of two distributions from each other, by their logits.  The sums are of no use if
 * p or q have NaN or inf.  Exponentials and differences are fp32; their products and the sums are
 * fp64. */
struct divergence_args {
	const float *p,
		*q; /* (n_rows, n_cols): columns [first, first + n_cols) of wider matrices */
	size_t n_rows, n_cols, first;
	struct divergence_sums *sums; /* (n_rows): written */
};

#endif
