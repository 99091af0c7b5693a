/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: forward passes of a model over data, and the amax history of every matrix product
 * that they leave behind.
 *
 * After each sweep (sweep/sweep.h) its rows are added to the history and the file is saved: what is
 * saved is always whole passes.
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
#include "dataset/dataset.h"
#include "model/model.h"
#include "sweep/plan.h"

/* What a running calibration tells whoever watches it. */
struct calibrate_progress {
	_Atomic uint64_t done;	 /* tokens times layers, the head as one more */
	_Atomic uint64_t total;	 /* 0 until known */
	_Atomic uint64_t tokens; /* whose loss is known */
	_Atomic double loss;	 /* the sum of theirs */
	_Atomic size_t layer;	 /* under way, from 1; one more: the head; 0: none */
	_Atomic size_t sweep;	 /* under way, from 1 */
	_Atomic size_t n_sweeps; /* as far as the length of this one tells */
};

struct calibrate_params {
	const struct io *io;
	const char *input;	 /* MODEL */
	const char *const *data; /* --data: files, directories, "-" */
	size_t n_data;
	const char *activations; /* a folder of dumps, in place of data */
	const char *output;	 /* the history; NULL with a dry run is allowed */
	const char *precision;	 /* "bf16" or "f32"; NULL: bf16 */
	const struct backend *backend;
	struct fp8_params fp8;
	int seq_len, passes, batch; /* 0: 512, 128, 1 */
	int seed;	 /* of the sequences drawn from all of the data; 0: the first ones */
	int history_len; /* 0: 1024 */
	bool histogram;
	bool resume;		/* go on with output's passes */
	bool restart;		/* replace it */
	int n_threads;		/* >= 1 */
	uint64_t max_memory;	/* bytes, besides one layer; 0: 1 GiB */
	const atomic_int *stop; /* not NULL: a signal number there ends the job at the next step */
	double (*now)(void);	/* seconds, from whenever on: by it a sweep takes about a minute */
};

/* Everything that is decided before the first product.  Zeroed is an empty one.  It stays where it
 * was made: its parts point at each other. */
struct calibrate_plan {
	struct checkpoint checkpoint;
	struct model model;
	struct dataset data;
	struct fp8_selection fp8;
	struct sweep_plan sweep;
	size_t n_modules;      /* matrices that have a history */
	uint64_t memory_bytes; /* of the sweep, and of histograms */
};

struct calibrate_result {
	double *nll;	   /* of each pass run now: the mean over its tokens; free() */
	size_t n_passes;   /* run now */
	size_t n_resumed;  /* that were in the file already */
	uint64_t n_tokens; /* run now */
	double perplexity; /* over all tokens run now */
};

/* Opens the model and the data.  ERR_INPUT, ERR_USAGE. */
int calibrate_plan_make(struct calibrate_plan *plan, const struct calibrate_params *params,
			struct err *err);
void calibrate_plan_release(struct calibrate_plan *plan);

/* Runs it, and writes the history to params->output.  Stopped by a signal: ERR_INTERRUPTED, with
 * what is kept in the message. ERR_INPUT, naming the layer and the module, where a value is NaN or
 * infinite. */
int calibrate_run(const struct calibrate_plan *plan, const struct calibrate_params *params,
		  struct calibrate_progress *progress, struct calibrate_result *result,
		  struct amax_stats *stats, struct err *err);

#endif
