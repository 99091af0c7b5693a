/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this folder.  calibrate_run() (over data) and dumps_run() (over dumped
 * inputs) have the same order:
 *
 *  resume_open    opens the place of the history, and reads the passes that it has (resume.c)
 *  resume_check   checks that these are the first passes of the same data
 *  ...            sweeps; the file is written after each
 *  resume_failed  decides about the file after a failed sweep
 */
#ifndef FP8CONV_CALIBRATE_STEPS_H
#define FP8CONV_CALIBRATE_STEPS_H

#include "calibrate/calibrate.h"
#include "calibrate/dump_file.h"
#include "calibrate/dumps.h"

/* Does the precision of the parameters mean fp32 products? */
bool calibrate_is_f32(const struct calibrate_params *params);

/* Returns the passes that the history keeps. */
uint64_t calibrate_history_len(const struct calibrate_params *params);

/* The place of a history, and the origin of its passes.  A zeroed struct is safe to close. */
struct history_file {
	const struct calibrate_params *params;
	struct outfile place;
	const char *data;      /* origin of the passes, for messages */
	struct amax_rank rank; /* zeroed: one process */
	size_t n_passes;       /* passes requested */
};

/* Opens the place, and the history to continue: an empty one, or with --resume that of
 * params->output.  source: of the model.  backend: the name of the computing one, for the metadata.
 * ERR_USAGE if output exists and neither --resume nor --restart allows it; ERR_INPUT if it belongs
 * to another run. */
int resume_open(struct history_file *file, struct source *source, const char *backend,
		struct amax_stats *stats, struct err *err);

/* Checks that the passes of stats are the first ones of the data: expected has all sites of the
 * model, and the fingerprint of as many passes.  ERR_INPUT if they differ. */
int resume_check(const struct history_file *file, const struct amax_stats *stats,
		 const struct amax_stats *expected, struct err *err);

/* Handles a failed sweep.  After bad input it removes the file, if the history began in this run
 * (n_resumed is 0); after a signal it puts the saved passes into the message.  Returns -1. */
int resume_failed(const struct history_file *file, const struct amax_stats *stats, size_t n_resumed,
		  struct err *err);

/* ERR_INPUT, naming tensor and file, unless the matrix takes as many features as the dump has. */
int dumps_check_input(const struct linear_ref *linear, const struct tensor_ref *input,
		      const char *path, struct err *err);

/* Returns how many rows of inputs are multiplied at once: constant, so that the bytes are the
 * same. */
size_t dumps_block_rows(const struct linear_ref *linear);

#endif
