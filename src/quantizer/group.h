/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that share amaxes, and their only reduction: the elementwise maximum, which is exact
 * and independent of the order.  A kind of group is one row.
 *
 * Order: group_threads_open(); group_reduce_max() in each thread; group_threads_close().
 */
#ifndef FP8CONV_QUANTIZER_GROUP_H
#define FP8CONV_QUANTIZER_GROUP_H

#include <stddef.h>

#include "base/err.h"

struct group;

struct group_kind {
	const char *name;

	/* Sets values[i] to its maximum over the ranks, and ignores NaN.  Every rank calls it with
	 * the same n and waits for the others.  Where n differs, all ranks fail with ERR_INPUT. */
	int (*reduce_max)(const struct group *group, float *values, size_t n, struct err *err);
};

/* A group in the view of one rank. */
struct group {
	const struct group_kind *kind;
	int rank, n_ranks;
	void *shared; /* private to the kind */
};

extern const struct group_kind group_self;    /* one process, of one rank */
extern const struct group_kind group_threads; /* threads of this process */

/* Calls the kind's reduce_max(); group NULL means group_self. */
int group_reduce_max(const struct group *group, float *values, size_t n, struct err *err);

/* Makes groups[0 .. n_ranks-1], one for each thread.  The caller closes all of them once, when no
 * rank is in a reduction. */
void group_threads_open(struct group *groups, int n_ranks);
void group_threads_close(struct group *groups);

#endif
