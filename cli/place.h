/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of this process among the tasks of a job, as the engine that started it tells in the
 * environment: Slurm, Open MPI and other MPI launchers, torchrun, Kubernetes.
 */
#ifndef FP8CONV_CLI_PLACE_H
#define FP8CONV_CLI_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct task_place {
	uint64_t index;	      /* from 0 */
	uint64_t n;	      /* tasks, at least 1 */
	const char *launcher; /* "Slurm" */
};

/* Finds the place.  n_given: how many tasks the user says there are, where the engine does not tell
 * it; 0: not said.  ERR_USAGE where no engine tells the place, or tells what cannot be, or tells
 * another number of tasks. */
int place_find(struct task_place *place, uint64_t n_given, struct err *err);

/* Sets *local to the index, from 0, of this task among those that the engine started on the same
 * machine.  *told becomes false, and nothing else is set, where no engine tells it, in the script
 * of a Slurm job, and where the task is the only one there.  ERR_USAGE for a value that is no
 * index. */
int place_local(uint64_t *local, bool *told, struct err *err);

#endif
