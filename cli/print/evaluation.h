/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `eval`.
 */
#ifndef FP8CONV_CLI_PRINT_EVALUATION_H
#define FP8CONV_CLI_PRINT_EVALUATION_H

#include "eval/eval.h"

/* Print the plan (--dry-run) on standard output. */
void eval_print_text(const struct eval_plan *plan);
void eval_print_json(const struct eval_plan *plan);

struct eval_report {
	const struct eval_params *params;
	const struct eval_plan *plan;
	const struct eval_result *result;
	double seconds;
	bool is_json;
};

/* Print the result on standard output. */
void eval_report_text(const struct eval_report *report);
void eval_report_json(const struct eval_report *report);

/* Prints what the run took, the numbers that decide and the next command, on standard error. */
void eval_report_summary(const struct eval_report *report);

#endif
