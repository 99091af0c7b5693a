/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share, in the order of calls.
 */
#ifndef FP8CONV_SENSITIVITY_STEPS_H
#define FP8CONV_SENSITIVITY_STEPS_H

#include "ckpt/outfile.h"
#include "sensitivity/sensitivity.h"
#include "sweep/sweep.h"
#include "sweep/variant.h"

/* A quantized unit by its place in the checkpoint. */
struct unit_place {
	uint64_t shard, begin, first; /* begin: bytes; first: element of the tensor */
	size_t unit;
	size_t group; /* of the table; SIZE_MAX: none has it */
};

/* The quantized units of one recipe, by place. */
struct unit_places {
	const struct selection *selection;
	struct unit_place *list;
	size_t n;
};

/* What has rows of a matrix: a unit, or a matrix of a stack. */
struct matrix_part {
	struct unit_place *place;
	uint64_t matrix; /* its number in the stack; else 0 */
};

struct matrix_parts {
	struct matrix_part list[MAX_PARTS];
	size_t n;
};

/* places.c: selection must outlive places. */
void places_make(struct unit_places *places, const struct selection *selection);
/* Finds the parts that have all rows of a matrix; returns false where it is not quantized. */
bool places_find(const struct unit_places *places, const struct linear_ref *ref,
		 struct matrix_parts *parts);
void places_release(struct unit_places *places);

/* groups.c: fills plan->table and plan->members from plan->plans and plan->model.  ERR_USAGE if no
 * group can be measured. */
int groups_make(struct sensitivity_plan *plan, bool by_expert, struct err *err);

/* saved.c: the output, and what an earlier run has left beside it. */
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

/* ranks.c: fails with ERR_USAGE where the ranks of a group do not measure the same, and lets as
 * many groups into a round as each of them has memory for. */
int ranks_agree(struct sensitivity_plan *plan, const struct group *group, struct err *err);
/* Gives all ranks the divergences of the leading one, and whether its output is finished. */
int ranks_take(struct sensitivity_plan *plan, const struct group *group, bool *finished,
	       struct err *err);

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
	struct variants variants;
	struct span own;	/* the sequences that this rank runs */
	uint64_t others_tokens; /* of those that other ranks run */
	size_t first, n;
	struct model_variant *list; /* (n): variants [begun, n) have no streams yet */
	size_t begun;
	double *sums;		      /* (n, sequences): of the divergences of a sequence; 0
					 where another rank runs it, until the end of the pass */
	struct worker_values *values; /* by worker */
};

/* replace.c: replaces the matrices of a group in a stage, by their values in FP8. */
int replace_group(struct round *round, size_t group, struct variant_stage *stage, struct err *err);

/* Returns the bytes that replace_group() needs on the host. */
uint64_t replace_size(const struct sensitivity_plan *plan, int n_threads);

/* round.c: opens the executor and allocates; runs the groups of one round; releases. */
int round_open(struct round *round, struct err *err);
int round_run(struct round *round, size_t first, size_t n, struct err *err);
void round_release(struct round *round);

#endif
