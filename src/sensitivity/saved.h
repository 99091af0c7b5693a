/* SPDX-License-Identifier: Apache-2.0
 *
 * The output file, and beside it the table of an unfinished measurement.
 */
#ifndef FP8CONV_SENSITIVITY_SAVED_H
#define FP8CONV_SENSITIVITY_SAVED_H

#include "ckpt/outfile.h"
#include "sensitivity/sensitivity.h"

/* The output, and what an earlier run has left beside it. */
struct saved {
	struct outfile file;
	char *name;    /* of the unfinished table, beside the output */
	bool finished; /* the output is there, and of this plan */
};

/* Takes the divergences of earlier runs into the plan's table. */
int saved_open(struct saved *saved, struct sensitivity_plan *plan,
	       const struct sensitivity_params *params, struct err *err);
/* Writes the table: to the output if every group is measured, else beside it. */
int saved_put(const struct saved *saved, const struct kld_table *table, struct err *err);
void saved_close(struct saved *saved);

#endif
