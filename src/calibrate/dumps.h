/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration from dumped activations: makes the history of a model whose forward pass this program
 * does not know.  x comes from the dumps, w from the checkpoint, and y is their product as in a
 * forward pass.  One file is one pass.
 *
 * A matrix is loaded once a sweep and multiplied with its inputs some rows at a time, so memory
 * holds one matrix and some rows for each thread, whatever the size of the dumps.
 *
 * Order: dumps_plan_make(); dumps_run(); dumps_plan_release(), also after a failure.
 */
#ifndef FP8CONV_CALIBRATE_DUMPS_H
#define FP8CONV_CALIBRATE_DUMPS_H

#include "ckpt/listing.h"
#include "calibrate/calibrate.h"
#include "calibrate/weight_lookup.h"

/* All decisions before the first product.  A zeroed struct is empty. */
struct dumps_plan {
	struct checkpoint checkpoint;
	struct weight_lookup lookup;
	struct listing dumps; /* the passes to run, in the order of their names */
	uint64_t *n_tokens;   /* of each */
	/* by module, bytewise: all that ran, and the experts beside them that did not run */
	struct linear_ref *linears;
	size_t n_linears;
	uint64_t n_all_tokens;
	uint64_t memory_bytes; /* of the arrays of all threads */
};

/* Opens the checkpoint and reads the headers of all dumps in params->activations.  ERR_INPUT,
 * naming file and tensor, for a module that the checkpoint lacks, for a number of features that
 * does not fit its matrix, and for a directory without dumps. */
int dumps_plan_make(struct dumps_plan *plan, const struct calibrate_params *params,
		    struct err *err);
void dumps_plan_release(struct dumps_plan *plan);

/* ERR_INPUT, naming tensor and file, unless the matrix takes as many features as the dump has. */
int dumps_check_input(const struct linear_ref *linear, const struct tensor_ref *input,
		      const char *path, struct err *err);

/* Returns how many rows of inputs are multiplied at once: constant, so that the bytes are the
 * same. */
size_t dumps_block_rows(const struct linear_ref *linear);

/* As calibrate_run(), but no loss is known. */
int dumps_run(const struct dumps_plan *plan, const struct calibrate_params *params,
	      struct sweep_progress *progress, struct calibrate_result *result,
	      struct amax_stats *stats, struct err *err);

#endif
