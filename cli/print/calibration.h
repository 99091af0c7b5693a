/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `calibrate`: its plan and its result; and what all commands that run a model on a
 * dataset say about both, and about their cost.
 */
#ifndef FP8CONV_CLI_PRINT_CALIBRATION_H
#define FP8CONV_CLI_PRINT_CALIBRATION_H

#include "calibrate/calibrate.h"
#include "dataset/dataset.h"
#include "model/model.h"

/* Print the plan (--dry-run) on standard output. */
void calibrate_print_text(const struct calibrate_plan *plan);
void calibrate_print_json(const struct calibrate_plan *plan);

struct calibrate_report {
	const struct calibrate_params *params;
	const struct calibrate_result *result;
	const struct amax_stats *stats;
	int min_tokens; /* fewest tokens for a module to count as covered */
	bool is_coded;	/* the model has weights of FP8 or 4 bits */
	double seconds;
};

/* Print on standard error: the closing summary, with the output and the next command; and a note
 * about modules with too few tokens. */
void calibrate_report_text(const struct calibrate_report *report);
void calibrate_report_uncovered(const struct calibrate_report *report);

/* Prints the next command, which takes static scales from the history, on standard error.  renames
 * may be NULL.  is_coded: the model is read by --requantize alone. */
void history_print_next(const char *model, const struct texts *renames, bool is_coded,
			const char *history);

/* Prints the result on standard output (--json). */
void calibrate_report_json(const struct calibrate_report *report);

/* Notes on standard error what the user may not expect: properties of the data; parts of the model
 * that are not run.  model is zeroed where none is run. */
void data_print_notes(const struct dataset *data, const struct model *model);

/* Print the memory that a plan needs, on standard output, and the time and memory that a job took,
 * on standard error. */
void data_print_memory(uint64_t bytes);
void data_print_time(double seconds);

#endif
