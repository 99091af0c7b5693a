/* SPDX-License-Identifier: Apache-2.0
 *
 * What `families` prints: what can be done with each family, and rows of the table of families.
 */
#ifndef FP8CONV_CLI_PRINT_FAMILIES_H
#define FP8CONV_CLI_PRINT_FAMILIES_H

#include "cli/family.h"

/* Prints a line for each family: what convert, calibrate and eval do with it.  Then, after an empty
 * line, the rows: on a terminal for people, else one line a row with tabs between the columns of
 * families, pattern, action, rule, conditions, said and source. */
void families_print_text(const struct families *families);

/* Prints one object, as fp8conv-families(1) says. */
void families_print_json(const struct families *families);

#endif
