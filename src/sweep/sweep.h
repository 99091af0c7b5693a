/* SPDX-License-Identifier: Apache-2.0
 *
 * All sequences of a data set go through a model, sweep by sweep: some passes at once, layer by
 * layer, each layer loaded once a sweep.  So memory holds one layer and the residual streams of a
 * sweep (and the next layer, if the plan says so).
 *
 *  sweep_open     opens the executor and the weights; reads no tensor
 *  sweep_run      for each sweep: embeds its sequences; for each stage: loads it, runs it
 *  sweep_close    checks that no file was changed meanwhile
 *  sweep_release
 *
 * A sweep keeps no history.  Its owner uses the values: struct sweep_events tells it the beginning
 * and end of stages, the end of sweeps, and every value between them.
 */
#ifndef FP8CONV_SWEEP_SWEEP_H
#define FP8CONV_SWEEP_SWEEP_H

#include "sweep/embed.h"
#include "sweep/length.h"
#include "forward/workspace.h"
#include "sweep/plan.h"

/* A part of the model that all sequences go through at once: a layer, or at the end the norm and
 * the head. */
struct stage {
	struct layer layer; /* ref NULL: this is the head */
	struct linear head;
	float *norm;
	struct weights_load load;
};

/* The arrays of the sequences of a sweep, and those of each thread. */
struct sweep_memory {
	struct workspace **workspaces;	/* by thread */
	struct embed_workspace *embeds; /* by thread */
	struct sequence *sequences;
	double *nll;		     /* by sequence: the sum over its tokens but the first */
	float *residuals;	     /* of all sequences; in the executor's memory */
	struct value_stats *stats;   /* (sequences, n_slots); in the executor's memory */
	struct value_stats *fetched; /* a copy of stats on the host */
};

struct sweep {
	const struct sweep_plan *plan;
	const struct sweep_events *events; /* valid during sweep_run() */
	const atomic_int *stop;
	_Atomic uint64_t *done; /* tokens times stages */

	struct forward forward;
	struct weights weights;
	struct sweep_length length;
	struct context_stack contexts;
	struct fp8_forward *fp8; /* NULL: in high precision */
	struct sweep_memory memory;
	size_t n_slots; /* value stats of a sequence in a stage */

	/* The current sweep: sequences [first, first + n_sequences) of the data, */
	size_t first, n_sequences;
	size_t step_first, n_step; /* of which the current step runs these. */
	struct stage stages[2];
	struct stage *stage; /* the current one */
	struct stage *next;  /* loaded while the step runs; NULL: none */
};

/* The calls to the owner of a sweep; a result of -1 ends all sweeps.  A stage is loaded when it
 * begins.  When it ends, memory.fetched has the value stats of its sequences; when a sweep ends,
 * memory.nll is complete. */
struct sweep_events {
	void *context;
	struct observer observer; /* called with all values, from all threads */
	int (*stage_begins)(void *context, const struct sweep *sweep, struct err *err);
	int (*stage_ends)(void *context, const struct sweep *sweep, struct err *err);
	int (*sweep_ends)(void *context, const struct sweep *sweep, struct err *err);
};

/* Opens a sweep; plan, stop and done must outlive it.  A signal number in *stop (stop may be NULL)
 * ends the sweep after the current items.  ERR_SYSTEM without memory.  A zeroed struct is safe to
 * release. */
int sweep_open(struct sweep *sweep, const struct sweep_plan *plan, const struct backend *backend,
	       const atomic_int *stop, _Atomic uint64_t *done, struct err *err);
void sweep_release(struct sweep *sweep);

/* Runs all sequences from `first` on. */
int sweep_run(struct sweep *sweep, size_t first, const struct sweep_events *events,
	      struct err *err);

/* ERR_INPUT if a file of the model was changed since its header was read. */
int sweep_close(struct sweep *sweep, struct err *err);

/* Returns the current layer; NULL for the head. */
static inline const struct layer *sweep_layer(const struct sweep *sweep)
{
	return sweep->stage->layer.ref ? &sweep->stage->layer : NULL;
}

/* Returns a stream for other work between the sequences of a stage. */
static inline struct executor_stream *sweep_stream(const struct sweep *sweep)
{
	return sweep->memory.workspaces[0]->stream;
}

#endif
