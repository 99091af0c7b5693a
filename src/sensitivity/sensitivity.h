/* SPDX-License-Identifier: Apache-2.0
 *
 * Sensitivity: for each group of matrices that `quantize` would quantize, the divergence of the
 * model in which this group alone is quantized, weights and inputs, from the unquantized model.
 *
 * Order: sensitivity_plan_make(); sensitivity_run(); sensitivity_plan_release(), also after a
 * failure.
 *
 * In one pass through the layers (a round), the variants of a range of groups begin in their layers
 * and go through those that follow: about half a forward pass for each group.  After each round, of
 * a minute or of what makes the unquantized model's pass a quarter, the numbers are saved, and a
 * later run goes on from there.
 */
#ifndef FP8CONV_SENSITIVITY_SENSITIVITY_H
#define FP8CONV_SENSITIVITY_SENSITIVITY_H

#include "plan/quantize.h"
#include "dataset/dataset.h"
#include "sensitivity/table.h"
#include "forward/forward.h"
#include "sweep/plan.h"
#include "sweep/progress.h"

struct sensitivity_params {
	/* of `quantize` for each recipe; the plan sets the member recipe */
	struct quantize_params quantize;
	const char *const *recipes;
	size_t n_recipes;	 /* >= 1 */
	const char *const *data; /* --data: files, directories, "-" */
	size_t n_data;
	int seq_len, passes;   /* 0: 512, 4 */
	const char *precision; /* "bf16" or "f32"; NULL: f32 */
	bool by_expert;	       /* each expert is a group of its own */
	const char *output;    /* may be NULL for a dry run */
	bool restart;	       /* replace output */
	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes, besides two layers; 0: 1 GiB */
	const atomic_int *stop;
	double (*now)(void); /* seconds, so that a round takes about a minute; NULL: all fit */
	/* ranks that share the sequences: all call sensitivity_run() and have the same numbers and
	 * failures, and the leading one writes the output; NULL: one process */
	const struct group *group;
};

/* What is quantized as one matrix: a unit, or a matrix of a stack. */
struct sensitivity_part {
	size_t unit;
	uint64_t matrix; /* its number in the stack; else 0 */
};

#define MAX_PARTS 2 /* gate and up */

/* A matrix that is multiplied, and where its rows are quantized: as one matrix, in a matrix of more
 * rows, or in several of fewer. */
struct sensitivity_member {
	const struct linear_ref *ref;
	struct sensitivity_part parts[MAX_PARTS];
	size_t n_parts;
	struct input_cast cast; /* of its input */
};

struct sensitivity_members {
	struct sensitivity_member *list;
	size_t n;
};

/* All decisions before the first product.  A zeroed struct is empty.  It must not move: its parts
 * point to each other. */
struct sensitivity_plan {
	struct plan *plans; /* by recipe */
	size_t n_plans;
	struct low_bit_view view;
	struct model model; /* of the first plan's source */
	struct dataset data;
	struct kld_table table;		     /* without any divergence */
	struct sensitivity_members *members; /* by group of the table */
	struct sweep_plan sweep;
	size_t n_at_once;      /* groups of a round, at most */
	uint64_t memory_bytes; /* of everything */
};

/* A running measurement, which another thread may read. */
struct sensitivity_progress {
	struct sweep_progress sweep;
	_Atomic size_t round, n_rounds; /* of this run, from 1 */
	_Atomic size_t n_groups;	/* whose variants run now */
	_Atomic size_t n_measured;	/* of all runs */
	_Atomic size_t n_left;		/* to measure in this run */
};

/* Opens the model and the data, and finds the groups.  Fails as quantize_plan_make() does for any
 * of the recipes; ERR_INPUT if the model or the data cannot be used; ERR_USAGE for options that do
 * not fit to them, and for memory that does not hold one group. */
int sensitivity_plan_make(struct sensitivity_plan *plan, const struct sensitivity_params *params,
			  struct err *err);
void sensitivity_plan_release(struct sensitivity_plan *plan);

/* Runs the plan, goes on from what an interrupted run of the same plan has left, and writes the
 * file; does nothing where it is finished.  plan->table becomes what the file has.  ERR_USAGE for
 * an output of another plan, and for ranks of different ones; ERR_INTERRUPTED after a signal;
 * ERR_INPUT where a divergence is not a number. */
int sensitivity_run(struct sensitivity_plan *plan, const struct sensitivity_params *params,
		    struct sensitivity_progress *progress, struct err *err);

#endif
