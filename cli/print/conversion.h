/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a command that wrote a checkpoint: its result.
 */
#ifndef FP8CONV_CLI_PRINT_CONVERSION_H
#define FP8CONV_CLI_PRINT_CONVERSION_H

#include "execute/execute.h"

struct conversion_report {
	const struct plan *plan;
	const struct convert_params *params;
	const struct convert_result *result;
	double seconds;
	uint64_t bytes; /* source bytes that this run converted */
};

/* Prints the closing summary on standard error, with the output and the next command. */
void conversion_print_text(const struct conversion_report *report);

/* Adds to the message of a conversion that another try may complete what is finished and how to
 * resume. */
void conversion_ended(const struct conversion_report *report, struct err *err);

/* Prints the result on standard output (--json). */
void conversion_print_json(const struct conversion_report *report);

#endif
