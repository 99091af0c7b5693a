/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of the values of options.  They are strict: each refusal (ERR_USAGE) names the option,
 * the value and what is expected.
 */
#ifndef FP8CONV_CLI_OPTIONS_VALUES_H
#define FP8CONV_CLI_OPTIONS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options/option.h"

struct select_rule;

/* The comment says what `place` points to. */
option_reader option_text;	  /* const char *: the text; one of "a|b|c" where arg lists them */
option_reader option_choice;	  /* int: which of "a|b|c", from 0 */
option_reader option_flag;	  /* bool: true */
option_reader option_count;	  /* int: from 1 to 1024 */
option_reader option_large;	  /* int: from 1 to a billion */
option_reader option_append;	  /* struct option_list: one more */
option_reader option_recipe;	  /* const char *: the name of an existing recipe */
option_reader option_append_rule; /* struct option_rules: one more RE=RECIPE or RE=skip */
/* uint64_t: bytes, at least 1: "4096", "64K", "512M", "2G", "2GB", "2GiB" (all binary). */
option_reader option_size;

/* The values of an option that may be given several times, in order.  The texts belong to argv; the
 * list is the caller's to free. */
struct option_list {
	const char **texts;
	size_t n;
};

/* The same of rules, whose patterns are the caller's to free, too. */
struct option_rules {
	struct select_rule *rules;
	size_t n;
};

/* Whether the option may be given several times. */
bool option_repeats(const struct option_row *option);

/* Decimal digits only, from min to max. */
int option_number(const struct option_row *option, const char *text, uint64_t min, uint64_t max,
		  uint64_t *value, struct err *err);

/* "I/N" with I from 1 to N: *part and *n_parts; or "finish": *finish. */
int option_part(const struct option_row *option, const char *text, int *part, int *n_parts,
		bool *finish, struct err *err);

#endif
