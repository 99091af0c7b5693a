/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration by activations that others dumped: the history of a model whose forward pass is not
 * known here.  x is what the dumps hold, w what the checkpoint holds, and y their product as a
 * forward pass would make it; a pass is a file.
 *
 * A matrix is loaded once a sweep and multiplied with its inputs some rows at a time, so memory
 * holds a matrix and some rows for each thread, however large the dumps are.
 */
#ifndef FP8CONV_CALIBRATE_DUMPS_H
#define FP8CONV_CALIBRATE_DUMPS_H

#include "ckpt/listing.h"
#include "calibrate/calibrate.h"
#include "calibrate/weight_lookup.h"

/* Everything that is decided before the first product.  Zeroed is an empty one. */
struct dumps_plan {
	struct checkpoint checkpoint;
	struct weight_lookup lookup;
	struct listing dumps; /* the passes to run, in the order of their names */
	uint64_t *n_tokens;   /* of each */
	/* by module, bytewise: all that ran, and experts beside them that did not */
	struct linear_ref *linears;
	size_t n_linears;
	uint64_t n_all_tokens;
	uint64_t memory_bytes; /* of what all threads work with */
};

/* Opens the checkpoint and reads the headers of all dumps in params->activations.  ERR_INPUT,
 * naming file and tensor: a module that the checkpoint lacks, features that its matrix does not
 * take, no dump. */
int dumps_plan_make(struct dumps_plan *plan, const struct calibrate_params *params,
		    struct err *err);
void dumps_plan_release(struct dumps_plan *plan);

/* As calibrate_run(); no loss is known. */
int dumps_run(const struct dumps_plan *plan, const struct calibrate_params *params,
	      struct calibrate_progress *progress, struct calibrate_result *result,
	      struct amax_stats *stats, struct err *err);

#endif
