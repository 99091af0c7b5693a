/* SPDX-License-Identifier: Apache-2.0
 *
 * What calibrate tells: the plan, of a forward pass or of activations that were dumped, and how it
 * went.
 */
#ifndef FP8CONV_CLI_PRINT_CALIBRATION_H
#define FP8CONV_CLI_PRINT_CALIBRATION_H

#include "calibrate/dumps.h"
#include "cli/print/progress.h"

/* --dry-run, on standard output. */
void calibrate_print_text(const struct calibrate_plan *plan);
void calibrate_print_json(const struct calibrate_plan *plan);
void activations_print_text(const struct dumps_plan *plan);
void activations_print_json(const struct dumps_plan *plan);

struct calibrate_report {
	const struct calibrate_params *params;
	const struct calibrate_result *result;
	const struct amax_stats *stats;
	int min_tokens; /* that a module should have seen */
	double seconds;
};

/* On standard error: the closing summary, with where the history is and the next command; a note
 * of modules that saw too few tokens. */
void calibrate_report_text(const struct calibrate_report *report);
void calibrate_report_uncovered(const struct calibrate_report *report);

/* --json, on standard output. */
void calibrate_report_json(const struct calibrate_report *report);

/* A running calibration, for a ticker. */
struct watched_tokens {
	const struct calibrate_progress *progress;
	size_t n_stages; /* layers, and the head */
};
struct watched watch_tokens(const struct watched_tokens *tokens);

#endif
