/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass of the sequences through the layers: in each layer the variants that began before it run
 * first, then its own groups' variants, at last the unquantized model, from whose stream they
 * began.
 */
#ifndef FP8CONV_SENSITIVITY_ROUND_H
#define FP8CONV_SENSITIVITY_ROUND_H

#include "sensitivity/sensitivity.h"
#include "sweep/sweep.h"
#include "sweep/variant.h"

/* The memory of a worker. */
struct worker_values {
	struct buffer read;	     /* values of a part of a weight, at first or in FP8 */
	struct buffer codes, scales; /* of them */
	struct buffer joined;	     /* rows of several parts */
};

/* One pass of all sequences through the layers, for groups [first, first + n) of the table. */
struct round {
	struct sensitivity_plan *plan;
	const struct sensitivity_params *params;
	struct sensitivity_progress *progress;
	struct sweep sweep;
	struct sweep_length length; /* of rounds, in groups */
	struct variants variants;
	struct span own;	/* the sequences that this rank runs */
	uint64_t others_tokens; /* of those that other ranks run */
	size_t first, n;
	struct model_variant *list; /* (n): variants [begun, n) have no streams yet */
	size_t begun;
	double seconds;		      /* of the variants in this pass; 0 without params->now */
	double *sums;		      /* (n, sequences): of the divergences of a sequence; 0
					 where another rank runs it, until the end of the pass */
	struct worker_values *values; /* by worker */
};

/* Opens the executor and allocates; runs the groups of one round; releases. */
int round_open(struct round *round, struct err *err);
int round_run(struct round *round, size_t first, size_t n, struct err *err);
void round_release(struct round *round);

#endif
