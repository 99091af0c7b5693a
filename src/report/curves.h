/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of a calibration in few numbers: for each kind of module the largest amax of its
 * inputs and outputs, over the passes.
 */
#ifndef FP8CONV_REPORT_CURVES_H
#define FP8CONV_REPORT_CURVES_H

#include "amax/amax.h"

#define CURVES_POINTS 128 /* at most; more passes are joined, by their maximum */
#define CURVES_MAX    64  /* at most; sites of more kinds are left out, and counted */

/* The modules whose names differ only in their numbers. */
struct curve {
	char *pattern; /* "model.layers.*.mlp.down_proj" */
	size_t n_sites;
	float x[CURVES_POINTS], y[CURVES_POINTS]; /* amax of all sites; (n_points) */
	float max;				  /* of x */
};

struct curves {
	size_t n_points;		      /* the last one may be of fewer passes */
	uint64_t passes_of_point;	      /* 1, or more where they are joined */
	uint64_t n_rows;		      /* passes in the file */
	uint64_t n_passes, n_tokens, seq_len; /* of the calibration */
	char *precision, *model;
	size_t n;
	struct curve *list; /* in the order of patterns */
	size_t n_left_out;  /* sites */
};

/* Reads an amax file.  The caller releases curves, also on failure. */
int curves_read(struct curves *curves, const struct io *io, const char *path, struct err *err);

/* The same for a table. */
void curves_make(struct curves *curves, const struct amax_stats *stats);
void curves_release(struct curves *curves);

#endif
