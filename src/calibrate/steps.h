/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share.  calibrate_run() and dumps_run() call, in this order:
 * calibrate_begin() (resume.c), their sweeps (sweep.c, dumps_run.c), and calibrate_failed() where
 * one fails.
 */
#ifndef FP8CONV_CALIBRATE_STEPS_H
#define FP8CONV_CALIBRATE_STEPS_H

#include "calibrate/calibrate.h"
#include "calibrate/dump_file.h"
#include "calibrate/dumps.h"
#include "sweep/embed.h"
#include "sweep/fp8_forward.h"
#include "sweep/length.h"
#include "calibrate/recorder.h"
#include "sweep/weights.h"

/* What sequences go through at once: a layer, or at last the head and the norm before it. */
struct stage {
	struct layer layer; /* without ref: it is the head */
	struct linear head;
	float *norm;
	struct weights_load load;
};

struct run {
	const struct calibrate_plan *plan;
	const struct calibrate_params *params;
	struct calibrate_progress *progress;
	struct calibrate_result *result;
	struct amax_stats *stats;

	struct forward forward;
	struct weights weights;
	struct sweep_length length;
	struct amax_place place;
	struct recorder *recorder;
	struct observer observer;
	struct context_stack contexts;
	struct fp8_forward *fp8;       /* NULL: in high precision */
	struct workspace **workspaces; /* by thread */
	struct sequence *sequences;    /* of the sweep: [first, first + n_sequences) of the data */
	size_t first, n_sequences;
	size_t step_first, n_step; /* of the step under way, in the sweep */
	double *nll;		   /* of each */
	float *residuals;	   /* of all, the executor's */
	size_t n_slots;
	struct value_stats *value_stats;      /* (sequences, n_slots), the executor's, */
	struct value_stats *host_value_stats; /* and a copy */
	struct embed_workspace *embed;	      /* by thread */

	struct stage stages[2];
	struct stage *stage; /* under way */
	struct stage *next;  /* to be loaded beside the sequences of the step; NULL: none */

	double loss;
	uint64_t n_losses;
};

bool calibrate_is_f32(const struct calibrate_params *params);

/* Passes of the first sweep: they give every thread a sequence, and are worth the loading, or are
 * done in a minute even on a slow machine. */
size_t calibrate_first_sweep(const struct calibrate_plan *plan,
			     const struct calibrate_params *params);

/* All passes from run->first on, sweep by sweep; each is in the file when the next begins. */
int calibrate_sweeps(struct run *run, struct err *err);

/* Tells the history of sequences [first, first + n). */
void calibrate_count_data(struct amax_stats *stats, const struct calibrate_plan *plan, size_t first,
			  size_t n);

/* What a history begins with. */
struct beginning {
	const struct calibrate_params *params;
	struct amax_place *place; /* of the history; the caller closes it */
	struct source *source;	  /* of the model */
	const char *backend;	  /* what computes, for the metadata */
	const char *data;	  /* where the passes come from, for messages */
	size_t n_passes;	  /* that are asked for */
	void *context;
	/* Tells `wanted` of the data of the first n_passes passes, and of all sites. */
	int (*count)(void *context, struct amax_stats *wanted, uint64_t n_passes, struct err *err);
};

/* Opens the place, and the history to go on with: an empty one, or, with --resume, that of
 * params->output, whose passes must be the first ones of the same data. */
int calibrate_begin(const struct beginning *beginning, struct amax_stats *stats, struct err *err);

/* A sweep failed: bad input leaves nothing of a history that was begun now (n_resumed passes were
 * there before); after a signal the message tells how far it came.  Returns -1. */
int calibrate_failed(const struct beginning *beginning, const struct amax_stats *stats,
		     size_t n_resumed, struct err *err);

/* ERR_INPUT, naming tensor and file, unless the matrix takes as many features as the dump has. */
int dumps_check_input(const struct linear_ref *linear, const struct tensor_ref *input,
		      const char *path, struct err *err);

/* How many rows of inputs are multiplied at once: always the same, for the same bytes. */
size_t dumps_block_rows(const struct linear_ref *linear);

#endif
