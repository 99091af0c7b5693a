/* SPDX-License-Identifier: Apache-2.0
 *
 * All sequences of a data set go through a model, or through two in step, sweep by sweep: some
 * passes at once, layer by layer, each layer loaded once a sweep.  So memory holds one layer of
 * each model and the residual streams of a sweep (and the next layer, if the plan says so).
 *
 *  sweep_open     opens the executor and the weights; reads no tensor
 *  sweep_run      for each sweep: embeds its sequences; for each stage: loads it, runs it
 *  sweep_close    checks that no file was changed meanwhile
 *  sweep_release
 *
 * Of several ranks (params.group), each runs its own sequences, and all of them meet after each
 * step and stage: value stats and losses are of all sequences, and a failure is everybody's.
 *
 * A sweep keeps no history.  Its owner uses the values: struct sweep_events tells it the beginning
 * and end of stages, the end of sweeps, and every value between them.
 */
#ifndef FP8CONV_SWEEP_SWEEP_H
#define FP8CONV_SWEEP_SWEEP_H

#include "sweep/progress.h"
#include "sweep/runner.h"

struct sweep {
	struct sweep_plan plan;		   /* or a smaller one, for what a device has of memory */
	const struct sweep_events *events; /* valid during sweep_run() */
	const atomic_int *stop;
	struct sweep_progress *progress; /* total and losses are its owner's */
	struct sweep_length length;
	struct runner runners[SWEEP_MODELS]; /* plan->params.n_models of them */

	/* The current sweep: sequences [first, first + n_sequences) of the data, */
	size_t first, n_sequences;
	uint64_t work;	    /* of a token in the current stage */
	struct span step;   /* of which these make the current step, */
	struct span *parts; /* by device: of which it runs these, */
	size_t *groups;	    /* by device: so many at a time on a thread. */
};

/* The calls to the owner of a sweep; a result of -1 ends all sweeps.  A stage is loaded when it
 * begins.  When it ends, memory.fetched of each runner has the value stats of its sequences; when a
 * sweep ends, memory.nll is complete, unless the owner runs sequences. */
struct sweep_events {
	void *context;
	struct observer observers[SWEEP_MODELS]; /* called with all values, from all threads */
	int (*stage_begins)(void *context, struct sweep *sweep, struct err *err);
	/* Runs sequences through the current stage of all models; NULL: one model after the
	 * other, which compute nll at the head. */
	int (*run)(void *context, struct sweep *sweep, int worker, struct span sequences,
		   struct err *err);
	int (*stage_ends)(void *context, const struct sweep *sweep, struct err *err);
	int (*sweep_ends)(void *context, const struct sweep *sweep, struct err *err);
};

/* Opens a sweep, which must not move; stop and progress must outlive it.  Where a device has less
 * memory than it reported, fewer sequences go through it at once.  A signal number in *stop (stop
 * may be NULL) ends the sweep after the current items.  ERR_SYSTEM without memory.  A zeroed struct
 * is safe to release. */
int sweep_open(struct sweep *sweep, const struct sweep_plan *plan, const struct backend *backend,
	       const atomic_int *stop, struct sweep_progress *progress, struct err *err);
void sweep_release(struct sweep *sweep);

/* Runs all sequences from `first` on. */
int sweep_run(struct sweep *sweep, size_t first, const struct sweep_events *events,
	      struct err *err);

/* ERR_INPUT if a file of a model was changed since its header was read. */
int sweep_close(struct sweep *sweep, struct err *err);

#endif
