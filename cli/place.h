/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of this process among the tasks of a job, as the engine that started it tells in the
 * environment: Slurm, Open MPI and other MPI launchers, torchrun, Kubernetes.
 */
#ifndef FP8CONV_CLI_PLACE_H
#define FP8CONV_CLI_PLACE_H

#include <stdint.h>

#include "base/err.h"

struct place {
	uint64_t index;	      /* from 0 */
	uint64_t n;	      /* tasks, at least 1 */
	const char *launcher; /* "Slurm" */
};

/* Finds the place.  n_given: how many tasks the user says there are, where the engine does not tell
 * it; 0: not said.  ERR_USAGE where no engine tells the place, or tells what cannot be, or tells
 * another number of tasks. */
int place_find(struct place *place, uint64_t n_given, struct err *err);

#endif
