/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share.  calibrate_run() (over data) and dumps_run() (over inputs
 * that others dumped) go the same way:
 *
 *   resume_open    where the history goes, and the passes that are there already (resume.c)
 *   resume_check   these are the first passes of the same data
 *   ...            sweeps; after each the file is written
 *   resume_failed  what becomes of the file where a sweep fails
 */
#ifndef FP8CONV_CALIBRATE_STEPS_H
#define FP8CONV_CALIBRATE_STEPS_H

#include "calibrate/calibrate.h"
#include "calibrate/dump_file.h"
#include "calibrate/dumps.h"

bool calibrate_is_f32(const struct calibrate_params *params);

/* Where a history goes, and what it is made of.  Zeroed is safe to close. */
struct history_file {
	const struct calibrate_params *params;
	struct amax_place place;
	const char *data; /* where the passes come from, for messages */
	size_t n_passes;  /* that are asked for */
};

/* Opens the place, and the history to go on with: an empty one, or, with --resume, that of
 * params->output.  source: of the model.  backend: what computes, for the metadata. */
int resume_open(struct history_file *file, struct source *source, const char *backend,
		struct amax_stats *stats, struct err *err);

/* The passes of stats are the first ones of the data: expected has all sites of the model, and was
 * told of the data of as many passes.  ERR_INPUT where they differ. */
int resume_check(const struct history_file *file, const struct amax_stats *stats,
		 const struct amax_stats *expected, struct err *err);

/* A sweep failed: bad input leaves nothing of a history that was begun now (n_resumed passes were
 * there before); after a signal the message says how far it came.  Returns -1. */
int resume_failed(const struct history_file *file, const struct amax_stats *stats, size_t n_resumed,
		  struct err *err);

/* ERR_INPUT, naming tensor and file, unless the matrix takes as many features as the dump has. */
int dumps_check_input(const struct linear_ref *linear, const struct tensor_ref *input,
		      const char *path, struct err *err);

/* How many rows of inputs are multiplied at once: always the same, for the same bytes. */
size_t dumps_block_rows(const struct linear_ref *linear);

#endif
