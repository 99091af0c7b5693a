/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that share a job.  Each runs its own sequences; all have the inputs of all, and add
 * them to their own panels of the Hessians in the order of one process; each rounds the matrices of
 * its own groups.  So no sum depends on the number of ranks, or on which one was first.
 */
#ifndef FP8CONV_COMPENSATE_RANKS_H
#define FP8CONV_COMPENSATE_RANKS_H

#include "compensate/steps.h"

/* Bytes that ranks unite at a time. */
#define RANKS_PIECE ((size_t)16 << 20)

/* Finds the sequences of this rank: fills plan->own, own_numbers and n_own_held_out.  ERR_USAGE for
 * more ranks than sequences. */
int ranks_divide(struct compensate_plan *plan, struct err *err);

/* group_settle() of the job's ranks. */
int ranks_settle(const struct compensation *job, int rc, struct err *err);

/* Fills job->done by the store of the leading rank; *finished: it has the outcome too. */
int ranks_take_store(struct compensation *job, bool *finished, struct err *err);

/* Where rc is 0 on all ranks, unites n bytes of the host, each of which is 0 on all ranks but one.
 * The second one does so with memory of the executor, by job->piece. */
int ranks_unite(const struct compensation *job, int rc, void *bytes, size_t n, struct err *err);
int ranks_unite_memory(const struct compensation *job, char *memory, uint64_t size,
		       struct err *err);

#endif
