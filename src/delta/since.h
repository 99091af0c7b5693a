/* SPDX-License-Identifier: Apache-2.0
 *
 * The delta from an output to the one that a plan would write: tensors are compared while they are
 * converted, and no file of the output is written.
 */
#ifndef FP8CONV_DELTA_SINCE_H
#define FP8CONV_DELTA_SINCE_H

#include "delta/delta.h"
#include "execute/execute.h"

struct since_params {
	struct delta_params delta; /* its base and the file to write */
	const struct plan *plan;   /* for a directory as output, without preserved sources */
	const struct convert_params *convert;
};

struct since_result {
	struct delta_counts counts;
	struct convert_result converted; /* figures are of the whole output */
};

/* Returns the bytes of convert->max_memory that comparing takes beside the conversion. */
uint64_t since_memory(const struct convert_params *convert);

/* Writes byte for byte the file of delta_make() from the base to the output of the plan.
 * convert->max_memory bounds the memory for buffers.  What changed takes its bytes twice on the
 * disk of the file meanwhile.  Fails as delta_make() and execute_plan() do. */
int since_make(const struct since_params *params, struct since_result *result,
	       struct progress *progress, struct err *err);

#endif
