/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share, and the order of their calls.
 *
 * A plan: ranks_divide(), compensate_find_jobs(), compensate_plan_memory().
 * A run: ranks_take_store(), bands_open(), codes_open(), candidates_open(), candidates_begin().
 * For each stage codes_begin(), for each of its turns turn_sum() and turn_round(), codes_commit();
 * or codes_take() for a stage that the store has; candidates_stage().  Last candidates_choose().
 */
#ifndef FP8CONV_COMPENSATE_STEPS_H
#define FP8CONV_COMPENSATE_STEPS_H

#include "compensate/band.h"
#include "compensate/compensate.h"
#include "sweep/variant.h"

/* A running job. */
struct compensation {
	const struct compensate_plan *plan;
	struct store *store; /* NULL: that of the leading rank */
	bool *done;	     /* by stage: its codes were in the store when the job began */
	struct progress *progress;
	struct runner runner;
	struct sweep_length length; /* keeps no time */
	struct bands bands;
	struct variants variants;
	struct model_variant candidates[1 + STORE_RHOS]; /* rounding to nearest, then each rho */
	size_t n_candidates;				 /* 0: rho is given */
	double *kld;	   /* (n_candidates, n_held_out): of each sequence, from the source */
	char *kept_inputs; /* the executor's; from turn to turn, since new pages cost time */
	uint64_t kept_inputs_size;
	uint8_t *codes; /* of several ranks: the current stage's, as in its file; else NULL */
	uint8_t *piece; /* of several ranks: RANKS_PIECE bytes; else NULL */

	/* The current stage. */
	size_t stage;
	/* bytes of progress for each sequence that runs, and for a candidate's */
	uint64_t work, candidate_work;
	uint64_t work_unit; /* bytes of progress for `hidden` multiplications of a token */
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

#endif
