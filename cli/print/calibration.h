/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `calibrate`: its plan and its result.
 */
#ifndef FP8CONV_CLI_PRINT_CALIBRATION_H
#define FP8CONV_CLI_PRINT_CALIBRATION_H

#include "calibrate/calibrate.h"

/* Print the plan (--dry-run) on standard output. */
void calibrate_print_text(const struct calibrate_plan *plan);
void calibrate_print_json(const struct calibrate_plan *plan);

struct calibrate_report {
	const struct calibrate_params *params;
	const struct calibrate_result *result;
	const struct amax_stats *stats;
	int min_tokens; /* fewest tokens for a module to count as covered */
	double seconds;
};

/* Print on standard error: the closing summary, with the output and the next command; and a note
 * about modules with too few tokens. */
void calibrate_report_text(const struct calibrate_report *report);
void calibrate_report_uncovered(const struct calibrate_report *report);

/* Prints the next command, which takes static scales from the history, on standard error. */
void history_print_next(const char *model, const char *history);

/* Prints the result on standard output (--json). */
void calibrate_report_json(const struct calibrate_report *report);

#endif
