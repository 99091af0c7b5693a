/* SPDX-License-Identifier: Apache-2.0
 *
 * From the Hessian of a group's inputs, H = X^T X, to the factor that rounding needs.  The text:
 *
 *  m = mean of H_jj
 *  shrink  H_ij *= 1 - rho for i != j
 *  damp    H_jj += 0.001 m
 *  order   p = stable sort of the columns by decreasing H_jj, before both; ties by lower index
 *  factor  H[p, p] = U D U^T, U unit upper triangular, D diagonal and positive
 *
 * It is LDLQ of QuIP (arXiv 2307.13304) with GPTQ's column order; arXiv 2507.18553 shows that GPTQ
 * is the same loop (Babai's nearest plane) by another factor.  Here the factor is that of Cholesky,
 * taken from the last column to the first, with each column divided by its pivot at the end.
 *
 * Everything is fp32 but the mean (fp64).  An element of the factor is one chain of fused
 * multiply-adds from the last column down, so it has the same bits on every instruction set and any
 * number of threads.
 */
#ifndef FP8CONV_COMPENSATE_FACTOR_H
#define FP8CONV_COMPENSATE_FACTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/host_ops.h"
#include "base/err.h"

/* What is factored, and on which threads. */
struct hessian {
	const float *data; /* (n, n), row-major; only the upper triangle is read */
	size_t n;	   /* columns of the matrices, 1 to UINT32_MAX - 16 */
	const struct host_ops *ops;
	int n_threads;		/* 1: starts none */
	const atomic_int *stop; /* as for pool_run(); may be NULL */
};

/* A zeroed struct is safe to release. */
struct factor {
	size_t n;
	uint32_t *order; /* (n): p, columns in the order in which they are rounded */
	uint32_t *rank;	 /* (n): the inverse, order[rank[j]] = j */
	float *u;	 /* (n, n) as in triangle.h; NULL: U is the identity */
	float rho;	 /* that was used, at least the one asked for; 1: U is the identity */
	bool zero;	 /* H has a diagonal of zeros: U is the identity, rho is as asked for */
};

/* Returns the most bytes that a factor of n columns has, the scratch of factor_make() included:
 * about 2 n^2. */
uint64_t factor_size(size_t n);

/* Factors a Hessian that is shrunk by rho (0 to 1) towards its diagonal.  If a pivot is not
 * positive and finite, tries again with the next larger rho of 0.8, 0.9 and 1; 1 always succeeds.
 * ERR_SYSTEM without memory, ERR_INTERRUPTED by *stop.  Takes n^3 / 3 FLOP. */
int factor_make(struct factor *factor, const struct hessian *hessian, float rho, struct err *err);
void factor_release(struct factor *factor);

#endif
