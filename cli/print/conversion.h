/* SPDX-License-Identifier: Apache-2.0
 *
 * How a command that wrote a checkpoint went.
 */
#ifndef FP8CONV_CLI_PRINT_CONVERSION_H
#define FP8CONV_CLI_PRINT_CONVERSION_H

#include "convert/convert.h"

struct conversion_report {
	const struct plan *plan;
	const struct convert_params *params;
	const struct convert_result *result;
	const struct output_notes *notes;
	double seconds;
	uint64_t bytes; /* of the source, that this run went through */
};

/* The closing summary, on standard error: with where the result is, and the next command. */
void conversion_print_text(const struct conversion_report *report);

/* Adds to the message of a conversion that a signal ended what is kept of it. */
void conversion_interrupted(const struct conversion_report *report, struct err *err);

/* --json, on standard output. */
void conversion_print_json(const struct conversion_report *report);

#endif
