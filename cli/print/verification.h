/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `verify`.
 */
#ifndef FP8CONV_CLI_PRINT_VERIFICATION_H
#define FP8CONV_CLI_PRINT_VERIFICATION_H

#include <stdbool.h>

#include "verify/verify.h"

/* Print on standard output: --json; a line for each problem; with --verbose the list of checks. */
void verification_print_json(const struct verification *verification);
void verification_print_problems(const struct verification *verification);
void verification_print_checked(const struct verification *verification, bool has_source);

/* Prints a line on standard error for each note. */
void verification_print_notes(const struct verification *verification);

/* Prints one line on standard error: "OK" or the number of problems, and what was checked; and the
 * next command for what is in order. */
void verification_print_verdict(const struct verification *verification,
				const struct verify_params *params);

#endif
