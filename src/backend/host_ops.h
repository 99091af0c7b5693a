/* SPDX-License-Identifier: Apache-2.0
 *
 * The few operations on arrays that run on the CPU beside any executor: rounding weights while they
 * load, and rounding with compensation.  They run on the calling thread; every row gives the same
 * bits.
 */
#ifndef FP8CONV_BACKEND_HOST_OPS_H
#define FP8CONV_BACKEND_HOST_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/triangle.h"
#include "num/qspec.h"

struct executor_ops;

#define ROUND_ROWS 32 /* rows that are factored or rounded together */

/* ROUND_ROWS rows of a matrix, whose columns are in the order of the factor and padded to
 * triangle_padded(). */
struct round_rows_args {
	struct triangle u;	  /* strict upper triangle; data NULL: all zeros */
	float *e;		  /* (n, ROUND_ROWS): the weights, which become their errors */
	uint8_t *codes;		  /* (n, ROUND_ROWS) */
	const uint32_t *tile_col; /* (n): the tile of each column */
	const float *factor, *scale_inv; /* (tiles of columns, ROUND_ROWS): of struct scaling */
	bool divide;			 /* of struct scaling */
	enum fp8_format format;
};

struct host_ops {
	const char *name; /* of the instruction set */
	bool (*usable)(void);

	/* Sets EXECUTOR_OPERATIONS of the CPU's executor. */
	void (*operations)(struct executor_ops *ops);

	/* y = bf16(x), to nearest even, as bf16 or as the fp32 of the same value.  In the second, y
	 * may be x. */
	void (*round_bf16)(const float *x, size_t n, uint16_t *y);
	void (*round_bf16_f32)(const float *x, size_t n, float *y);

	/* The Cholesky factor C of A = C C^T, C upper triangular, in the place of A, in blocks of
	 * TRIANGLE_BLOCK columns, the last one first:
	 *
	 *  c[j, j] = sqrt(s[j, j]), c[i, j] = s[i, j] / c[j, j], where s[i, j] is a[i, j], then
	 *  fma(-c[i, k], c[j, k], s[i, j]) for each k from the last column down to j + 1.
	 *
	 * The first computes the rows of the block; what is below its diagonal has no meaning.  It
	 * returns false if a s[j, j] is not positive and finite.  Then, the second computes the
	 * ROUND_ROWS rows from `row` on, which are above the block, on any thread. */
	bool (*factor_diagonal)(const struct triangle *a, size_t first);
	void (*factor_rows)(const struct triangle *a, size_t first, size_t row);

	/* Divides each column of the panel of 16 rows by its pivot: pivots[j] = c[j, j]. */
	void (*factor_unit)(const struct triangle *c, size_t row, const float *pivots);

	/* For each row, and columns j in order: s = w[j], then fma(e[i], u[i, j], s) for each i
	 * from 0 to j - 1; the code is fp8(scaling_apply(s)); e[j] = w[j] - code * scale_inv, or 0
	 * where that is not finite. */
	void (*round_rows)(const struct round_rows_args *args);
};

/* Every row of this build, the best first; the last one runs everywhere (kernels/backends.c). */
extern const struct host_ops *const host_ops[];

/* Returns the best row that this machine can run. */
const struct host_ops *host_ops_select(void);

#endif
