/* SPDX-License-Identifier: Apache-2.0
 *
 * What `families` prints: rows of the table of model families.
 */
#ifndef FP8CONV_CLI_PRINT_FAMILIES_H
#define FP8CONV_CLI_PRINT_FAMILIES_H

#include "select/profile.h"

/* Prints the rows of a profile: on a terminal for people, else one line a row with tabs between
 * the columns of families, pattern, action, rule, conditions, said and source. */
void families_print_text(const struct profile *profile);

/* Prints one object, as fp8conv-families(1) says. */
void families_print_json(const struct profile *profile);

#endif
