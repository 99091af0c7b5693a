/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `sensitivity`: its plan, its result, and a running measurement.
 */
#ifndef FP8CONV_CLI_PRINT_SENSITIVITY_H
#define FP8CONV_CLI_PRINT_SENSITIVITY_H

#include "cli/progress/progress.h"
#include "sensitivity/sensitivity.h"
#include <stdio.h>
#include "sensitivity/choose.h"

/* Print the plan (--dry-run) on standard output. */
void sensitivity_print_text(const struct sensitivity_plan *plan);
void sensitivity_print_json(const struct sensitivity_plan *plan);

/* Prints one note on standard error if matrices that are quantized take no part. */
void sensitivity_note_unmeasured(const struct sensitivity_plan *plan);

struct sensitivity_report {
	const struct sensitivity_params *params;
	const struct sensitivity_plan *plan; /* measured */
	double seconds;
};

/* Print the result: the worst groups and the next command on standard error, or an object on
 * standard output. */
void sensitivity_report_text(const struct sensitivity_report *report);
void sensitivity_report_json(const struct sensitivity_report *report);

/* A running measurement, for a ticker (progress.h). */
struct watched_groups {
	const struct sensitivity_progress *progress;
	const struct sensitivity_plan *plan;
};
struct watched watch_groups(const struct watched_groups *groups);

/* Prints the sets that change, most divergence per byte first, and what is predicted. */
void choice_print_text(FILE *stream, const struct choice *choice);

/* Prints one object.  output: the list; NULL: none was written. */
void choice_print_json(const struct choice *choice, const char *output);

/* Prints the output, and the command that obeys the list, on standard error.  model: NULL: not
 * known. */
void choice_print_next(const struct choice *choice, const char *model, const char *output);

#endif
