/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a calibration begins: with an empty history, or after the passes in a file.
 *
 * The order of calibrate_run():
 *
 *  resume_open    opens the place of the history, and reads the passes that it has
 *  resume_check   checks that these are the first passes of the same data
 *  ...            sweeps; the file is written after each
 *  resume_failed  decides about the file after a failed sweep
 */
#ifndef FP8CONV_CALIBRATE_RESUME_H
#define FP8CONV_CALIBRATE_RESUME_H

#include "calibrate/calibrate.h"
#include "ckpt/outdir.h"
#include "source/source.h"

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
 * (n_resumed is 0); after a signal it puts the saved passes into the message, and the
 * seconds that were lost.  Returns -1. */
int resume_failed(const struct history_file *file, const struct amax_stats *stats, size_t n_resumed,
		  double lost, struct err *err);

#endif
