/* SPDX-License-Identifier: Apache-2.0
 *
 * Hessians to factor, the same in every run, and every way to compute.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_HESSIAN_SAMPLE_H
#define FP8CONV_TESTS_UNIT_SUPPORT_HESSIAN_SAMPLE_H

#include "compensate/factor.h"

/* An instruction set that this machine can run, and a number of threads. */
struct way {
	const struct host_ops *ops;
	int n_threads;
};

/* Returns way i: each instruction set with 1, 2 and 5 threads; ops is NULL after the last.  Prints
 * SKIPPED for what the machine lacks if i is 0. */
struct way way_at(size_t i);

/* Returns X^T X (n, n) of n_tokens rows of correlated inputs: each is a mix of a few common signals
 * and noise, and columns differ in size.  Below the diagonal there is NaN.  The caller frees. */
float *hessian_new(size_t n, size_t n_tokens, uint32_t seed);

/* In [-1, 1]. */
float noise(uint32_t *state);

#endif
