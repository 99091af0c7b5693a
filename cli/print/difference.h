/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `diff`.
 */
#ifndef FP8CONV_CLI_PRINT_DIFFERENCE_H
#define FP8CONV_CLI_PRINT_DIFFERENCE_H

#include <stdbool.h>

#include "delta/delta.h"
#include "diff/diff.h"

/* Print what differs on standard output: as tables of at most ten rows, unless all are wanted; as
 * one JSON object. */
void difference_print_text(const struct difference *difference, bool all);
void difference_print_json(const struct difference *difference);

/* Prints one line on standard error, and the next command where B is made of A, whose tensors have
 * other names by renames. */
void difference_print_verdict(const struct difference *difference, const struct texts *renames);

/* --- delta.c: what `delta` and `apply` did, and what a delta holds --- */

/* Prints one JSON object on standard output. */
void delta_print_json(const struct delta_counts *counts, const char *output);

/* Print what a file holds: each tensor that changes, unless summary; files. */
void delta_print_contents(const struct delta_file *delta, bool summary);
void delta_print_contents_json(const struct delta_file *delta);

/* Prints the summary on standard error: what changed, and the output. */
void delta_print_summary(const struct delta_counts *counts, const char *output);

/* Prints the command that applies the delta. */
void delta_print_next(const char *base, const char *delta);

#endif
