/* SPDX-License-Identifier: Apache-2.0
 *
 * All sequences of a data set through a model, sweep by sweep: some passes at once, layer by layer,
 * each layer loaded once a sweep.  So memory holds one layer and the residual streams of a sweep
 * (and the next layer, where the plan says so).
 *
 *   sweep_open     the executor and the weights; nothing is read yet
 *   sweep_run      for each sweep: embed its sequences; for each stage: load it, run it
 *   sweep_close    checks that no file was changed meanwhile
 *   sweep_release
 *
 * A sweep keeps no history: what its values are for is its owner's business, which is told when a
 * stage begins and ends, when a sweep ends, and by an observer of every value in between.
 */
#ifndef FP8CONV_SWEEP_SWEEP_H
#define FP8CONV_SWEEP_SWEEP_H

#include "sweep/embed.h"
#include "sweep/length.h"
#include "forward/workspace.h"
#include "sweep/plan.h"

/* What sequences go through at once: a layer, or at last the norm and the head. */
struct stage {
	struct layer layer; /* without ref: this is the head */
	struct linear head;
	float *norm;
	struct weights_load load;
};

/* The arrays of the sequences of a sweep, and those of each thread. */
struct sweep_memory {
	struct workspace **workspaces;	/* by thread */
	struct embed_workspace *embeds; /* by thread */
	struct sequence *sequences;
	double *nll;		     /* of each sequence: the sum over its tokens but the first */
	float *residuals;	     /* of all sequences; the executor's */
	struct value_stats *stats;   /* (sequences, n_slots); the executor's */
	struct value_stats *fetched; /* a copy of stats, the host's */
};

struct sweep {
	const struct sweep_plan *plan;
	const struct sweep_events *events; /* while sweep_run() lasts */
	const atomic_int *stop;
	_Atomic uint64_t *done; /* tokens times stages */

	struct forward forward;
	struct weights weights;
	struct sweep_length length;
	struct context_stack contexts;
	struct fp8_forward *fp8; /* NULL: in high precision */
	struct sweep_memory memory;
	size_t n_slots; /* value stats of a sequence in a stage */

	/* The sweep under way: sequences [first, first + n_sequences) of the data, */
	size_t first, n_sequences;
	size_t step_first, n_step; /* of which these run in the step under way. */
	struct stage stages[2];
	struct stage *stage; /* under way */
	struct stage *next;  /* loaded beside the sequences of the step; NULL: none */
};

/* What the owner of a sweep is told; -1 ends all sweeps.  A stage is loaded when it begins; when it
 * ends, memory.fetched has the value stats of its sequences; when a sweep ends, memory.nll is
 * known. */
struct sweep_events {
	void *context;
	struct observer observer; /* of all values that go by, from all threads */
	int (*stage_begins)(void *context, const struct sweep *sweep, struct err *err);
	int (*stage_ends)(void *context, const struct sweep *sweep, struct err *err);
	int (*sweep_ends)(void *context, const struct sweep *sweep, struct err *err);
};

/* Zeroed is safe to release; plan, stop and done must outlive it.  stop: not NULL: a signal number
 * there ends it after what is under way.  ERR_SYSTEM where memory is missing. */
int sweep_open(struct sweep *sweep, const struct sweep_plan *plan, const struct backend *backend,
	       const atomic_int *stop, _Atomic uint64_t *done, struct err *err);
void sweep_release(struct sweep *sweep);

/* All sequences from `first` on. */
int sweep_run(struct sweep *sweep, size_t first, const struct sweep_events *events,
	      struct err *err);

/* ERR_INPUT if a file of the model was changed since its header was read. */
int sweep_close(struct sweep *sweep, struct err *err);

/* The layer under way; NULL: the head. */
static inline const struct layer *sweep_layer(const struct sweep *sweep)
{
	return sweep->stage->layer.ref ? &sweep->stage->layer : NULL;
}

/* For other work between the sequences of a stage. */
static inline struct executor_stream *sweep_stream(const struct sweep *sweep)
{
	return sweep->memory.workspaces[0]->stream;
}

#endif
