/* SPDX-License-Identifier: Apache-2.0
 *
 * An option is a row: how it is written, what it says of itself, who reads its value, and where
 * the value goes. The parser, --help, the completions and the test of the man pages all go by
 * these rows.
 */
#ifndef FP8CONV_CLI_OPTIONS_OPTION_H
#define FP8CONV_CLI_OPTIONS_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Headings of `fp8conv CMD --help`, in this order. */
enum option_section {
	SECTION_NONE,
	SECTION_CHECK,
	SECTION_MAKE,
	SECTION_DATA,
	SECTION_NUMBERS,
	SECTION_TENSORS,
	SECTION_RUN,
	SECTION_TELL,
	SECTION_HELP, /* without a heading, as the first */
	N_SECTIONS
};

struct option_row;
struct select_rule;

/* Reads value (argv's; NULL where the option takes none) into place.  option as the user knows it,
 * "--threads", is option_written(). 0, or -1: ERR_USAGE. */
typedef int option_reader(const struct option_row *option, const char *value, void *place,
			  struct err *err);

/* A table ends with a row without a name. */
struct option_row {
	enum option_section section;
	const char *name;
	char letter;	 /* of the short form; 0: none */
	const char *arg; /* of the value; "a|b|c" lists all there are; NULL: takes none */
	const char *doc;
	option_reader *read;
	size_t offset; /* of place in the struct that the table is of */
};

/* Rows that several commands have, for a struct in the settings of each. */
struct option_table {
	const struct option_row *rows; /* NULL: none */
	size_t offset;		       /* of the struct in the settings */
};

/* The readers; place is what stands behind each. */
option_reader option_text; /* const char *: the text itself; one of "a|b|c" where arg lists them */
option_reader option_choice; /* int: which of "a|b|c", from 0 */
option_reader option_flag;   /* bool: true */
option_reader option_count;  /* int: from 1 to 1024 */
option_reader option_large;  /* int: from 1 to a billion */
option_reader option_many;   /* struct option_list */
option_reader option_rules;  /* struct option_rules, of RE=RECIPE or RE=skip */
option_reader option_recipe; /* const char *: the name of a recipe that there is */
option_reader option_bytes;  /* uint64_t: "4096", "64K", "512M", "2G" (binary), at least 1 */

/* The values of an option that may be given several times, in order; texts belong to argv, the list
 * is the caller's to free. */
struct option_list {
	const char **texts;
	size_t n;
};

/* The same of rules; their patterns are the caller's to free, too. */
struct option_rules {
	struct select_rule *rules;
	size_t n;
};

/* Whether the option may be given several times. */
bool option_repeats(const struct option_row *option);

/* "--name" in a buffer of the caller. */
struct option_spelling {
	char text[40];
};
struct option_spelling option_written(const struct option_row *option);

#endif
