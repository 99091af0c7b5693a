/* SPDX-License-Identifier: Apache-2.0
 *
 * What `delta` and `apply` did.
 */
#ifndef FP8CONV_CLI_PRINT_DELTA_H
#define FP8CONV_CLI_PRINT_DELTA_H

#include <stdbool.h>

#include "delta/delta.h"

/* Prints one JSON object on standard output. */
void delta_print_json(const struct delta_counts *counts, const char *output);

/* Print what a file holds: each tensor that changes, unless summary; files. */
void delta_print_contents(const struct delta_file *delta, bool summary);
void delta_print_contents_json(const struct delta_file *delta);

/* Prints the summary on standard error: what changed, and the output. */
void delta_print_summary(const struct delta_counts *counts, const char *output);

#endif
