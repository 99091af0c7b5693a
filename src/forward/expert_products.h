/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of experts on rows of several sequences, sorted by expert.
 */
#ifndef FP8CONV_FORWARD_EXPERT_PRODUCTS_H
#define FP8CONV_FORWARD_EXPERT_PRODUCTS_H

#include "forward/pass.h"

/* The rows of the segments [begin, end) (struct row_stats); or some rows of one segment. */
struct expert_batch {
	const struct pass *pass; /* of the first sequence */
	size_t n;		 /* sequences */
	size_t begin, end;
	size_t first, n_rows; /* in the sorted order of all rows */
};

/* Returns the rows of the segments [begin, end). */
size_t expert_segments_rows(const struct pass *pass, size_t begin, size_t end);

/* Returns the stats of the segments of a batch's rows. */
struct row_stats expert_batch_stats(const struct expert_batch *batch);

/* Matrices with one input: ys[i] = x w^T + bias by matrix roles[i] of each expert. */
struct expert_products {
	const int *roles;
	float *const *ys;
	const size_t *y_slots;
	size_t n;
	const float *x; /* the values of the input; its codes, if any, are in input.rounded */
	size_t x_slot;	/* of its stats, which have them already */
	bool y_stats;	/* whether ys are added to their stats */
};

/* Computes the products, with their observations.  Neighbouring experts whose inputs are cast in
 * the same way have theirs cast at once. */
void expert_products_run(const struct expert_batch *batch, const struct expert_products *products);

#endif
