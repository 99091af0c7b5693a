/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a command with `--ranks mpi`, of which the leading one prints.
 */
#ifndef FP8CONV_CLI_RANKS_H
#define FP8CONV_CLI_RANKS_H

#include "cli/options/run.h"
#include "ranks/group.h"

/* What an option row reads "mpi" into, in the place of the rank of I/N. */
#define RANKS_MPI (-1)

/* A zeroed struct: one process. */
struct ranks {
	struct group group;
	bool open;
};

/* Joins the processes that the engine started, if wanted, and makes those that do not lead silent:
 * quiet, without --json.  Then returns work()'s result.  Of a failure of all ranks the leading one
 * keeps its message, which the others clear; where this rank failed alone, prints the message and
 * ends all.  ERR_USAGE without MPI, or where its processes do not know each other. */
int ranks_run(struct ranks *ranks, bool wanted, struct run_settings *run,
	      int (*work)(void *settings, struct err *err), void *settings, struct err *err);

/* Returns the group; NULL: one process. */
const struct group *ranks_group(const struct ranks *ranks);

/* ERR_USAGE where data are to come from standard input, which one process has. */
int ranks_check_data(const char *const *data, size_t n, struct err *err);

/* Is this the process that prints? */
bool ranks_print(const struct ranks *ranks);

#endif
