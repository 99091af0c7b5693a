/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this folder: the steps of a plan and of a run, in order of call.
 */
#ifndef FP8CONV_COMPENSATE_STEPS_H
#define FP8CONV_COMPENSATE_STEPS_H

#include "compensate/band.h"
#include "compensate/compensate.h"
#include "compensate/factor.h"
#include "sweep/variant.h"

/* Chunks of sequences whose inputs are kept: one runs while the other is added to the Hessians. */
#define N_CHUNKS 2

/* jobs.c: fills plan->stages, places, n_units and n_outside. */
void compensate_find_jobs(struct compensate_plan *plan);

/* memory.c: fills plan->sweep, room, memory_bytes and store_bytes. */
int compensate_plan_memory(struct compensate_plan *plan, struct err *err);

/* Returns the bytes that a group needs while its sums are made: on the executor, and its sum and
 * factor on the host. */
uint64_t compensate_group_size(const struct compensate_group *group);

/* Returns the bytes that the inputs of one kind take in a sequence. */
uint64_t compensate_region_size(const struct compensate_plan *plan, const struct input_group *input,
				enum dtype dtype);

/* Returns the bytes of the inputs of a sequence that groups [first, end) of a stage keep. */
uint64_t compensate_inputs_size(const struct compensate_plan *plan,
				const struct compensate_stage *stage, size_t first, size_t end);

/* Returns the type in which inputs are multiplied, and kept. */
static inline enum dtype compensate_input_type(const struct compensate_plan *plan)
{
	return plan->params.backend->executor->bf16_type();
}

/* A running job. */
struct compensation {
	const struct compensate_plan *plan;
	struct store *store;
	struct progress *progress;
	struct runner runner;
	struct sweep_length length; /* keeps no time */
	struct bands bands;
	struct variants variants;
	struct variant candidates[1 + STORE_RHOS]; /* rounding to nearest, then each rho */
	size_t n_candidates;			   /* 0: rho is given */
	double *kld;	   /* (n_candidates, n_held_out): of each sequence, from the source */
	char *kept_inputs; /* the executor's; from turn to turn, since new pages cost time */
	uint64_t kept_inputs_size;

	/* The current stage. */
	size_t stage;
	uint64_t work; /* bytes of progress for each sequence that runs */
};

/* The Hessian of a group. */
struct group_sum {
	float *hessian;	   /* (k, k), the upper triangle; the host's */
	uint64_t n_tokens; /* that reached the matrices */
};

/* One pass of all sequences through the current stage, for the groups whose Hessians fit the
 * memory. */
struct turn {
	const struct compensate_stage *stage;
	size_t first, end;	/* groups */
	bool last;		/* the sequences go on to the next layer; else their streams stay */
	struct group_sum *sums; /* (end - first) */
};

/* sums.c: makes the Hessians of a turn, over all sequences that are not held out.  The caller frees
 * every turn->sums[].hessian, also after a failure. */
int turn_sum(struct compensation *job, const struct turn *turn, struct err *err);

/* inputs.c: frees the memory of kept inputs, which turns share. */
void kept_inputs_release(struct compensation *job);

/* stage.c: rounds the matrices of a turn with every rho, and writes their codes. */
int turn_round(struct compensation *job, const struct turn *turn, struct writer *writer,
	       struct store_counts *counts, struct err *err);

/* candidates.c: allocates the candidates; gives them the embeddings of their sequences; takes them
 * through the current stage, whose codes are in the store. */
int candidates_open(struct compensation *job, struct err *err);
int candidates_begin(struct compensation *job, struct err *err);
int candidates_stage(struct compensation *job, struct err *err);

/* Chooses by the divergences of the head. */
void candidates_choose(const struct compensation *job, struct store_outcome *outcome);
void candidates_release(struct compensation *job);

#endif
