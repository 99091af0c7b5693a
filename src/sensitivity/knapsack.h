/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice among ways to store groups of matrices: for each group one, so that the sum of
 * divergences is small for the bytes.  This is a multiple-choice knapsack; it is solved greedily
 * along the convex hull of each group, by divergence that is saved per byte.
 *
 * Steps that save divergence and no bytes come first.  Where all of them are taken, and none of the
 * others was left out for its bytes, no other choice of as many bytes or fewer has a smaller sum.
 * With steps left out, what is lost is less than what the largest step saves.
 */
#ifndef FP8CONV_SENSITIVITY_KNAPSACK_H
#define FP8CONV_SENSITIVITY_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One way to store a group. */
struct knapsack_option {
	double kld;
	int64_t n_bytes;
};

struct knapsack_set {
	/* options[0] is the recipe of the job; of the others, only those with a smaller divergence
	 * count */
	const struct knapsack_option *options;
	size_t n_options;
	size_t chosen; /* result */
};

/* When to stop: by one of the two. */
struct knapsack_limit {
	bool by_bytes;
	double n_bytes; /* that all groups may take beyond options[0] */
	double kld;	/* the sum of divergences that is small enough */
};

/* Sets the chosen option of every set. */
void knapsack_choose(struct knapsack_set *sets, size_t n, const struct knapsack_limit *limit);

#endif
