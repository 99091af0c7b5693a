/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands tell that write a checkpoint: the plan, and how it went.
 */
#ifndef FP8CONV_CLI_PRINT_PLAN_H
#define FP8CONV_CLI_PRINT_PLAN_H

#include "convert/convert.h"

/* --dry-run, on standard output. */
void plan_print_text(const struct plan *plan, const struct convert_params *params);
void plan_print_json(const struct plan *plan, const struct convert_params *params);

struct convert_report {
	const struct plan *plan;
	const struct convert_result *result;
	double seconds;
	uint64_t bytes; /* of the source, that this run went through */
};

/* The closing summary, on standard error. */
void report_print_text(const struct convert_report *report);

/* --json, on standard output. */
void report_print_json(const struct convert_report *report);

#endif
