/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of MPI: MPI_Allreduce of exact operations (MPI 3.1, chapter 5).  Errors of MPI end
 * the job, which is its default.
 */
#include "ranks/group.h"

#ifdef FP8CONV_MPI
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of one call: MPI counts by int. */
#define MOST ((size_t)1 << 28)

/* Do all ranks call with this op and n?  Else what follows would hang, or mix them. */
static int check_call(enum group_op op, size_t n, struct err *err)
{
	uint64_t call[2] = { (uint64_t)n * 4 + (uint64_t)op, 0 }, min[2];

	call[1] = ~call[0];
	MPI_Allreduce(call, min, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
	if (min[0] == ~min[1])
		return 0;
	return err_set(err, ERR_INPUT,
		       "the ranks of a group have different numbers of values: %" PRIu64
		       " and %" PRIu64,
		       min[0] / 4, ~min[1] / 4);
}

static int mpi_reduce(const struct group *group, enum group_op op, void *values, size_t n,
		      struct err *err)
{
	const MPI_Datatype types[] = { MPI_FLOAT, MPI_UNSIGNED_CHAR, MPI_UINT64_T, MPI_UINT64_T };
	const MPI_Op ops[] = { MPI_MAX, MPI_BOR, MPI_SUM, MPI_MIN };
	size_t size = group_value_size(op);

	group_self.reduce(group, op, values, n, err); /* no NaN, whose maximum MPI leaves open */
	if (check_call(op, n, err))
		return -1;
	for (size_t i = 0; i < n; i += MOST) {
		size_t left = n - i;

		MPI_Allreduce(MPI_IN_PLACE, (char *)values + i * size,
			      (int)(left < MOST ? left : MOST), types[op], ops[op], MPI_COMM_WORLD);
	}
	return 0;
}

const struct group_kind group_mpi = {
	.name = "mpi",
	.reduce = mpi_reduce,
};

static bool aborted; /* MPI_Abort() may call exit() */

static void leave(void)
{
	if (!aborted)
		MPI_Finalize();
}

int group_mpi_open(struct group *group, struct err *err)
{
	char host[MPI_MAX_PROCESSOR_NAME + 1] = "";
	int provided, len;

	*group = (struct group){ .kind = &group_mpi };
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) ||
	    provided < MPI_THREAD_FUNNELED)
		return err_set(err, ERR_SYSTEM,
			       "this MPI does not take a process with several threads");
	atexit(leave);
	MPI_Comm_rank(MPI_COMM_WORLD, &group->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &group->n_ranks);
	MPI_Get_processor_name(host, &len);
	memcpy(group->host, host, strnlen(host, sizeof group->host - 1));
	return 0;
}

void group_mpi_abort(struct group *group, int status)
{
	(void)group;
	aborted = true;
	MPI_Abort(MPI_COMM_WORLD, status);
}
#else
int group_mpi_open(struct group *group, struct err *err)
{
	*group = (struct group){ 0 };
	return err_set(err, ERR_USAGE,
		       "this fp8conv was built without MPI: build it with 'make MPI=1'");
}

void group_mpi_abort(struct group *group, int status)
{
	(void)group, (void)status;
}
#endif
