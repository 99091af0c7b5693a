/* SPDX-License-Identifier: Apache-2.0
 *
 * One model of a sweep: its executor and weights, the arrays of its sequences and threads, and the
 * stage that it runs.  Each device has a copy of the stage and the arrays of its own sequences, and
 * takes every n_devices-th thread.  Arrays "by device" have an element for each.
 *
 * Order: runner_open(); for each sweep runner_embed() for every sequence; for each stage
 * runner_stage_begin(), runner_stats_clear(), runner_run() for all sequences beside
 * runner_load_piece() for every piece, runner_stats_fetch(), runner_stage_end(); runner_close(),
 * runner_release().
 */
#ifndef FP8CONV_SWEEP_RUNNER_H
#define FP8CONV_SWEEP_RUNNER_H

#include "sweep/embed.h"
#include "sweep/length.h"
#include "forward/workspace.h"
#include "sweep/plan.h"

/* A part of the model that all sequences go through at once: a layer, or at the end the norm and
 * the head. */
struct stage {
	struct layer *layers;		/* by device; ref NULL: this is the head */
	struct linear *heads;		/* by device */
	float *(*last)[N_LAST_VECTORS]; /* by device: of the final norm */
	struct weights_load load;
	bool begun; /* to load */
};

/* The arrays of the sequences of a device, in its memory. */
struct runner_arrays {
	float *residuals;	   /* of its sequences */
	struct value_stats *stats; /* (sequences, n_slots): of all; other ranks' stay 0 */
};

/* The arrays of the sequences of a sweep, and of each thread. */
struct runner_memory {
	struct runner_arrays *arrays;	  /* by device */
	struct executor_stream **streams; /* by device: of its first thread */
	struct workspace **workspaces;	  /* by thread */
	struct embed_workspace *embeds;	  /* by thread */
	struct sequence *sequences;
	size_t *devices;	     /* by sequence: the device that runs it */
	double *losses;		     /* by thread: (longest sequence), of forward_head() */
	double *nll;		     /* by sequence: the sum over its tokens but the first */
	struct value_stats *fetched; /* (sequences, n_slots): of all devices, on the host */
	struct value_stats *others;  /* (sequences, n_slots): of one device after the first */
};

struct runner {
	const struct sweep_plan *plan;
	const struct sweep_model *from;
	struct forward forward;
	struct weights weights;
	struct fp8_forward *fp8; /* NULL: in high precision */
	struct context_stack contexts;
	struct context outer; /* of contexts, during a step */
	struct runner_memory memory;
	size_t n_slots;	      /* value stats of a sequence in a stage */
	struct stage *stages; /* (n_stages): of all layers and the head, or of two in turn */
	size_t n_stages;
	bool resident;	     /* stages stay loaded */
	struct stage *stage; /* the current one */
	struct stage *next;  /* loaded while the current one runs; NULL: none */
};

/* Opens the executor and the weights, and allocates the arrays; reads no tensor.  All pointers must
 * outlive the runner.  ERR_SYSTEM without memory.  A zeroed struct is safe to release. */
int runner_open(struct runner *runner, const struct sweep_plan *plan,
		const struct sweep_model *from, const struct backend *backend,
		const atomic_int *stop, struct err *err);
void runner_release(struct runner *runner);

/* ERR_INPUT if a file of the model was changed since its header was read. */
int runner_close(struct runner *runner, struct err *err);

/* Gives sequences [first, first + n) of the data their tokens and places; other ranks' have no
 * residual stream.  Then runner_embed() computes the embedding of one of them on a thread. */
void runner_begin(struct runner *runner, size_t first, size_t n);
int runner_embed(struct runner *runner, int worker, size_t sequence, struct err *err);

/* Loads stage i, unless that was done while the stage before ran or in an earlier sweep, and if the
 * plan says so begins to load the next one.  Times the loading in *length.  Where a device has no
 * memory for that, no next stage is loaded and stages do not stay. */
int runner_stage_begin(struct runner *runner, size_t i, struct sweep_length *length,
		       struct err *err);
void runner_stage_end(struct runner *runner);

/* Returns the pieces of the next stage that are to be loaded; loads one of them on a thread. */
size_t runner_n_pieces(const struct runner *runner);
int runner_load_piece(struct runner *runner, int worker, size_t i, struct err *err);

/* Begins and ends a step, whose sequences run in a context of their own: with delayed scaling the
 * history grows at the end of the step, by the amaxes that are taken before. */
int runner_step_begin(struct runner *runner, struct err *err);
int runner_take_amaxes(struct runner *runner, struct err *err);
int runner_step_end(struct runner *runner, struct err *err);

/* Returns the arguments of a sequence's pass through the current stage: a layer, or the head. */
struct pass runner_pass(const struct runner *runner, int worker, size_t sequence);
struct head_pass runner_head_pass(const struct runner *runner, int worker, size_t sequence);

/* Returns how many of n sequences of a device a thread takes through the current stage together:
 * more than one through experts, and as many as leave no thread without work. */
size_t runner_group(const struct runner *runner, size_t n);

/* Runs sequences through the current stage, at most plan->max_group.  The head computes the losses
 * of each and their sum. */
int runner_run(struct runner *runner, int worker, struct span sequences, struct err *err);

/* Clears the value stats of n sequences; copies them to memory.fetched, where other ranks' are
 * 0. */
int runner_stats_clear(struct runner *runner, size_t n, struct err *err);
int runner_stats_fetch(struct runner *runner, size_t n, struct err *err);

/* Returns the device of a thread. */
static inline size_t runner_device(const struct runner *runner, int worker)
{
	return (size_t)worker % runner->forward.n_devices;
}

/* Returns the current layer on the first device; NULL for the head. */
static inline const struct layer *runner_layer(const struct runner *runner)
{
	return runner->stage->layers->ref ? runner->stage->layers : NULL;
}

/* Returns a stream of the first device for other work between the sequences of a stage. */
static inline struct executor_stream *runner_stream(const struct runner *runner)
{
	return runner->memory.streams[0];
}

#endif
