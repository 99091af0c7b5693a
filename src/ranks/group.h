/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that share a job, and what they reduce: maxima, unions of parts, sums and minima of
 * integers, all of them exact and independent of the order.  A sum of floats is no reduction: its
 * terms are united, and each rank adds them in the order of one process.  A kind of group is one
 * row.
 *
 * Order: group_mpi_open(); reductions, by all ranks in the same order.  Where a rank can fail
 * alone, group_settle() comes before the next reduction.
 */
#ifndef FP8CONV_RANKS_GROUP_H
#define FP8CONV_RANKS_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct group;

enum group_op {
	GROUP_MAX,   /* float: the maximum, at least 0; ignores NaN */
	GROUP_UNION, /* bytes: each is 0 on all ranks but one, or on all */
	GROUP_SUM,   /* uint64_t */
	GROUP_MIN,   /* uint64_t */
};

struct group_kind {
	const char *name;

	/* Sets values[0 .. n-1] to their reduction over the ranks.  Every rank calls it with the
	 * same op and n and waits for the others.  Where n differs, all ranks fail with
	 * ERR_INPUT. */
	int (*reduce)(const struct group *group, enum group_op op, void *values, size_t n,
		      struct err *err);
};

#define GROUP_HOST 64

/* A group in the view of one rank. */
struct group {
	const struct group_kind *kind;
	int rank, n_ranks;
	void *shared;	       /* private to the kind */
	char host[GROUP_HOST]; /* name of this rank's machine; empty: that of all ranks */
};

extern const struct group_kind group_self; /* one process, of one rank */
extern const struct group_kind group_mpi;  /* processes of MPI */

/* In these functions, group NULL means group_self.  The first calls the kind's reduce(). */
int group_reduce(const struct group *group, enum group_op op, void *values, size_t n,
		 struct err *err);
int group_reduce_max(const struct group *group, float *values, size_t n, struct err *err);

/* Returns 0 where rc is 0 on all ranks.  Else all ranks return -1 with the error of the lowest rank
 * that failed; its message begins with that rank, unless all ranks have the same one. */
int group_settle(const struct group *group, int rc, struct err *err);

/* Fails on all ranks with ERR_USAGE unless they have the same bytes: a text of all that decides
 * their results. */
int group_agree(const struct group *group, const void *bytes, size_t n, struct err *err);

/* Sets *n to its minimum over the ranks, e.g. a limit that depends on a rank's memory or clock. */
int group_least(const struct group *group, size_t *n, struct err *err);

/* Is this the rank that prints and writes? */
static inline bool group_leads(const struct group *group)
{
	return !group || group->rank == 0;
}

static inline size_t group_rank(const struct group *group)
{
	return group ? (size_t)group->rank : 0;
}

static inline size_t group_size(const struct group *group)
{
	return group ? (size_t)group->n_ranks : 1;
}

/* Reduces values of one rank into the values of the ranks before it: for kinds. */
void group_combine(enum group_op op, void *into, const void *values, size_t n);
size_t group_value_size(enum group_op op); /* bytes of a value */

/* Makes the group of all processes that the engine started.  Once in a process; the thread that
 * calls it makes all reductions.  exit() waits for the other ranks: mpirun kills them at the first
 * status that is not 0, and what they print must come before.  ERR_USAGE in a build without MPI. */
int group_mpi_open(struct group *group, struct err *err);

/* Ends the processes of all ranks with that status, for a rank that failed where the others do not
 * wait for group_settle(). */
void group_mpi_abort(struct group *group, int status);

#endif
