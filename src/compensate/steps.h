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

/* ranks.c: finds the sequences of this rank: fills plan->own, own_numbers and n_own_held_out.
 * ERR_USAGE for more ranks than sequences. */
int ranks_divide(struct compensate_plan *plan, struct err *err);

/* Returns the bytes that codes and inputs take while ranks unite them; of one process, 0. */
uint64_t codes_size(const struct compensate_plan *plan);

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
	uint8_t *
		codes; /* of several ranks: those of the current stage, as in its file; else NULL */
	uint8_t *piece; /* of several ranks: RANKS_PIECE bytes; else NULL */

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

/* Bytes that ranks unite at a time. */
#define RANKS_PIECE ((size_t)16 << 20)

/* ranks.c: group_settle() of the job's ranks. */
int ranks_settle(const struct compensation *job, int rc, struct err *err);

/* Fills job->done by the store of the leading rank; *finished: it has the outcome too. */
int ranks_take_store(struct compensation *job, bool *finished, struct err *err);

/* Where rc is 0 on all ranks, unites n bytes of the host, each of which is 0 on all ranks but one.
 * The second one does so with memory of the executor, by job->piece. */
int ranks_unite(const struct compensation *job, int rc, void *bytes, size_t n, struct err *err);
int ranks_unite_memory(const struct compensation *job, char *memory, uint64_t size,
		       struct err *err);

/* codes.c: the codes of the current stage.  One process writes them into the store and reads them
 * there.  Each of several ranks has those of its groups in memory; the commit gives all ranks those
 * of all, and the leading one writes them.  codes_open() before the first stage: ERR_SYSTEM without
 * memory.  codes_begin(), codes_write() from any thread, codes_commit(); or codes_take() where the
 * store has the stage; then codes_read() from any thread, with every rank's codes. */
int codes_open(struct compensation *job, struct err *err);
void codes_release(struct compensation *job);
int codes_begin(struct compensation *job, struct writer *writer, struct err *err);
int codes_write(struct compensation *job, struct writer *writer, const struct store_span *span,
		const uint8_t *codes, struct err *err);
int codes_commit(struct compensation *job, struct writer *writer,
		 struct store_counts counts[STORE_RHOS], struct err *err);
int codes_take(struct compensation *job, struct err *err);
int codes_read(struct compensation *job, const struct store_span *span, uint8_t *codes,
	       struct err *err);

/* sums.c: makes the Hessians of a turn, over all sequences that are not held out.  The caller frees
 * every turn->sums[].hessian, also after a failure. */
int turn_sum(struct compensation *job, const struct turn *turn, struct err *err);

/* inputs.c: frees the memory of kept inputs, which turns share. */
void kept_inputs_release(struct compensation *job);

/* stage.c: rounds the matrices of every n_ranks-th group of a turn with every rho, and writes their
 * codes. */
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
