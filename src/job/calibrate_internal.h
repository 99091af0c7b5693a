/* SPDX-License-Identifier: Apache-2.0
 *
 * A calibration under way.
 */
#ifndef FP8CONV_JOB_CALIBRATE_INTERNAL_H
#define FP8CONV_JOB_CALIBRATE_INTERNAL_H

#include "job/calibrate.h"
#include "job/fp8_forward.h"
#include "job/sightings.h"
#include "job/weights.h"

struct run {
	const struct calibrate_plan *plan;
	const struct calibrate_params *params;
	struct calibrate_progress *progress;
	struct calibrate_result *result;
	struct amax_stats *stats;

	struct forward forward;
	struct weights weights;
	struct sightings *sightings;
	struct observer observer;
	struct context_stack contexts;
	struct fp8_forward *fp8; /* NULL: in high precision */
	struct forward_lane **lanes; /* by thread */
	struct sequence *sequences;  /* of the sweep: [first, first + n_sequences) of the data */
	size_t first, n_sequences;
	size_t step_first;	     /* of the step under way, in the sweep */
	double *nll;	  /* of each */
	float *residuals; /* of all */

	const struct layer *layer; /* under way; NULL: the head */
	struct linear head;
	float *norm;

	double loss;
	uint64_t n_losses;
	uint64_t n_tokens_before; /* in the passes that were resumed */
};

bool calibrate_is_f32(const struct calibrate_params *params);

/* Tells the history of sequences [first, first + n). */
void calibrate_count_data(struct amax_stats *stats, const struct calibrate_plan *plan, size_t first, size_t n);

/* The history to go on with: an empty one, or, with --resume, that of params->output, whose passes must be the first ones of
 * the same data; run->first is behind them. */
int calibrate_begin(struct run *run, struct err *err);

#endif
