/* SPDX-License-Identifier: Apache-2.0
 *
 * What `quantize` tells: its plan, and how it went.
 */
#ifndef FP8CONV_CLI_PLAN_PRINT_H
#define FP8CONV_CLI_PLAN_PRINT_H

#include "job/quantize.h"

/* --dry-run, on standard output. */
void plan_print_text(const struct plan *plan, const struct quantize_params *params);
void plan_print_json(const struct plan *plan, const struct quantize_params *params);

struct quantize_report {
	const struct plan *plan;
	const struct convert_result *result;
	double seconds;
	uint64_t bytes; /* of the source, that this run went through */
};

/* The closing summary, on standard error. */
void report_print_text(const struct quantize_report *report);

/* --json, on standard output. */
void report_print_json(const struct quantize_report *report);

#endif
