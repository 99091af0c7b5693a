/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `sensitivity --from`: what was chosen.
 */
#ifndef FP8CONV_CLI_PRINT_CHOICE_H
#define FP8CONV_CLI_PRINT_CHOICE_H

#include <stdio.h>

#include "sensitivity/choose.h"

/* Prints the sets that change, most divergence per byte first, and what is predicted. */
void choice_print_text(FILE *stream, const struct choice *choice);

/* Prints one object.  output: the list; NULL: none was written. */
void choice_print_json(const struct choice *choice, const char *output);

/* Prints the output, and the command that obeys the list, on standard error.  model: NULL: not
 * known. */
void choice_print_next(const struct choice *choice, const char *model, const char *output);

#endif
