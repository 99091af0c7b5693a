/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `diff`.
 */
#ifndef FP8CONV_CLI_PRINT_DIFFERENCE_H
#define FP8CONV_CLI_PRINT_DIFFERENCE_H

#include <stdbool.h>

#include "diff/diff.h"

/* Print what differs on standard output: as tables of at most ten rows, unless all are wanted; as
 * one JSON object. */
void difference_print_text(const struct difference *difference, bool all);
void difference_print_json(const struct difference *difference);

/* Prints one line on standard error, and the next command where B is made of A. */
void difference_print_verdict(const struct difference *difference);

#endif
