/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: forward passes of a model over data, and the amax history of all its matrix
 * products.
 *
 * Order: calibrate_plan_make(); calibrate_run(); calibrate_plan_release(), also after a failure.
 * After each sweep (sweep/sweep.h) its rows are added to the history and the file is saved, so a
 * file always has whole passes.
 */
#ifndef FP8CONV_CALIBRATE_CALIBRATE_H
#define FP8CONV_CALIBRATE_CALIBRATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/io.h"
#include "amax/amax.h"
#include "calibrate/share.h"
#include "dataset/dataset.h"
#include "model/model.h"
#include "sweep/plan.h"
#include "sweep/progress.h"

struct calibrate_params {
	const struct io *io;
	const char *input;	 /* MODEL */
	struct texts renames;	 /* of its tensors */
	const char *const *data; /* --data: files, directories, "-" */
	size_t n_data;
	const char *output;    /* the amax file; may be NULL for a dry run */
	const char *precision; /* "bf16" or "f32"; NULL: bf16 */
	const struct backend *backend;
	struct fp8_params fp8;
	int seq_len, passes, batch; /* 0: 512, 128, 1 */
	int seed;		    /* for sequences from all of the data; 0: the first ones */
	int history_len;	    /* 0: 1024 */
	bool histogram;
	int rank, n_ranks; /* from 1, for a file of this rank; n_ranks 0 or 1: a file of all */
	/* ranks that share all passes, and of which the leading one writes the file; NULL: none */
	const struct group *group;
	bool resume;	     /* continue after the passes in output */
	bool restart;	     /* replace output */
	int n_devices;	     /* of the backend; 0 as 1 */
	int n_threads;	     /* at least n_devices and 1 */
	uint64_t max_memory; /* bytes, besides one layer; 0: 1 GiB */
	const atomic_int
		*stop;	     /* if not NULL, a signal number in it ends the job at the next step */
	double (*now)(void); /* seconds, with any origin; a sweep takes about a minute */
};

/* All decisions before the first product.  A zeroed struct is empty.  It must not move: its parts
 * point to each other. */
struct calibrate_plan {
	struct checkpoint checkpoint;
	struct low_bit_view view; /* of the checkpoint, by the model */
	struct model model;
	struct dataset data; /* of all ranks */
	struct share share;  /* of this rank: its sequences go through the sweep */
	struct fp8_selection fp8;
	struct sweep_plan sweep;
	size_t n_modules;      /* matrices with a history */
	uint64_t memory_bytes; /* of the sweep, and of histograms */
};

struct calibrate_result {
	/* of each pass of this run in which this rank has sequences: the mean over their tokens;
	 * free() */
	double *nll;
	size_t n_passes;
	size_t n_resumed;  /* passes that were already in the file */
	uint64_t n_tokens; /* tokens of this run */
	double perplexity; /* over all tokens of this run */
};

/* Returns the passes that the history keeps. */
uint64_t calibrate_history_len(const struct calibrate_params *params);

/* Opens the model and the data.  ERR_INPUT if one of them cannot be used; ERR_USAGE for options
 * that do not fit to them or to each other. */
int calibrate_plan_make(struct calibrate_plan *plan, const struct calibrate_params *params,
			struct err *err);
void calibrate_plan_release(struct calibrate_plan *plan);

/* Runs the plan, and writes the history to params->output and to stats.  All ranks of a group call
 * it, and have the same results and failures; all must see the output, if it exists.  After a
 * signal: ERR_INTERRUPTED, with the saved passes in the message.  ERR_INPUT, naming layer and
 * module, if a value is NaN or infinite.  The caller frees result->nll and releases stats. */
int calibrate_run(const struct calibrate_plan *plan, const struct calibrate_params *params,
		  struct sweep_progress *progress, struct calibrate_result *result,
		  struct amax_stats *stats, struct err *err);

#endif
