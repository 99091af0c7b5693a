/* SPDX-License-Identifier: Apache-2.0
 *
 * What `verify` found.
 */
#ifndef FP8CONV_CLI_PRINT_VERIFICATION_H
#define FP8CONV_CLI_PRINT_VERIFICATION_H

#include <stdbool.h>

#include "verify/verify.h"

/* On standard output: --json; a line for each problem; with --verbose what was checked. */
void verification_print_json(const struct verification *verification);
void verification_print_problems(const struct verification *verification);
void verification_print_checked(const struct verification *verification, bool has_source);

/* One line for a person, on standard error: "OK" or how many problems, and what was checked. */
void verification_print_verdict(const struct verification *verification, bool has_source);

#endif
