/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds a matrix to FP8 codes with compensation: the error of each weight of a row is made up for
 * by the weights that are rounded after it.  The scales are given and stay.  For each row n, and
 * columns j in the order p of the factor (factor.h):
 *
 *  acc = w[n, j]; for i before j, in order: acc = fma(e[i], U[i, j], acc)
 *  code[n, j] = the code that the recipe's own cast gives acc
 *  e[j] = w[n, j] - code[n, j] * scale_inv[n, j]
 *
 * e is the error of the original weight: the product and the difference are rounded once each.  An
 * error that is not finite (weights of NaN and inf) counts as 0.  The loop minimizes e H e^T term
 * by term: Babai's nearest plane, which GPTQ is too (arXiv 2507.18553).
 *
 * Every acc is one chain in a fixed order: the codes are the same on every instruction set and any
 * number of threads.
 */
#ifndef FP8CONV_COMPENSATE_ROUND_H
#define FP8CONV_COMPENSATE_ROUND_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/host_ops.h"
#include "base/err.h"
#include "compensate/factor.h"
#include "num/qspec.h"
#include "num/scale.h"

/* How the matrices of one shape and scheme are rounded. */
struct rounding {
	const struct factor *factor; /* of w->cols columns */
	const struct qspec *spec;    /* format and tile are used */
	/* (ceil(rows / tile.rows), ceil(cols / tile.cols)): of the tiles of w, in its own columns.
	 * Where some have `divide` set, the others have it set too, or the factor 1. */
	const struct scaling *scales;
	const struct host_ops *ops;
	int n_threads;		/* 1: starts none */
	const atomic_int *stop; /* as for pool_run(); may be NULL */
};

/* Returns the bytes that round_matrix() allocates: about 160 n_cols for each thread, 168 n_cols
 * with MX tiles. */
uint64_t round_size(size_t n_cols, struct tile tile, int n_threads);

/* Writes the codes (rows, cols), without gaps, of w, which is F32.  With U the identity, they are
 * backend_cast()'s.  ERR_SYSTEM without memory, ERR_INTERRUPTED by *stop.  Takes rows cols^2
 * FLOP. */
int round_matrix(const struct rounding *rounding, const struct matrix *w, uint8_t *codes,
		 struct err *err);

#endif
