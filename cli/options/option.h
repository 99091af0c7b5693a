/* SPDX-License-Identifier: Apache-2.0
 *
 * An option is a row: its spelling, its help, the reader of its value, and where the value goes.
 * The parser, --help, the completions and the test of the man pages all use these rows.
 */
#ifndef FP8CONV_CLI_OPTIONS_OPTION_H
#define FP8CONV_CLI_OPTIONS_OPTION_H

#include <stddef.h>

#include "base/err.h"

/* The headings of `fp8conv CMD --help`, in this order. */
enum option_section {
	SECTION_NONE,
	SECTION_ALIAS, /* another name of the option in the row before */
	SECTION_OUTPUT,
	SECTION_CHECKS,
	SECTION_DATA,
	SECTION_NUMBERS,
	SECTION_TENSORS,
	SECTION_RUNNING,
	SECTION_REPORTING,
	SECTION_HELP, /* without a heading, like the first */
	N_SECTIONS
};

struct option_row;

/* Reads value (in argv; NULL if the option takes none) into place (values.h).  Returns 0, or -1
 * with ERR_USAGE, which names the option as "option '--threads'". */
typedef int option_reader(const struct option_row *option, const char *value, void *place,
			  struct err *err);

/* A row; a table ends with a row without a name. */
struct option_row {
	enum option_section section;
	const char *name;
	char letter;	 /* of the short form; 0: none */
	const char *arg; /* of the value; "a|b|c" lists all values; NULL: takes none */
	const char *doc;
	option_reader *read;
	size_t offset; /* of the value in the table's struct */
};

/* Rows that several commands share, for a struct in the settings of each. */
struct option_table {
	const struct option_row *rows; /* NULL: none */
	size_t offset;		       /* of the struct in the settings */
};

#endif
