/* SPDX-License-Identifier: Apache-2.0
 *
 * A command is a file cmd_<name>.c ending in one row; the build lists them. Its tables of options
 * serve the parser, --help, the completions and the test that holds the man page against it.
 */
#ifndef FP8CONV_CLI_COMMAND_H
#define FP8CONV_CLI_COMMAND_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/options/option.h"

/* Headings of `fp8conv --help`, in this order. */
enum command_group {
	GROUP_HIDDEN,
	GROUP_CALIBRATE,
	GROUP_CONVERT,
	GROUP_INSPECT,
	GROUP_INFORMATION,
	N_GROUPS
};

#define MAX_SHARED 5

struct command {
	const char *name;
	const char *args;    /* "MODEL -o OUT": the first word is the argument */
	const char *summary; /* one line */
	enum command_group group;
	const struct option_row *options; /* its own, of its settings; NULL: none */
	/* Those that it has in common with others: the first table before its own options, the rest
	 * after them.  A row of its own replaces one of that name. */
	struct option_table shared[MAX_SHARED];
	const struct option_row *argument; /* which must be there; NULL: it takes none */
	bool many;			   /* of them may be there */

	/* The exit status; -1: err says what failed, and with which status. */
	int (*run)(const struct command *command, int argc, char **argv, struct err *err);
};

extern const struct command *const commands[]; /* generated; NULL at the end */

const struct command *command_find(const char *name); /* NULL: no such command */

/* The rows of the command's options, --help first, the shared ones last: NULL gives the first one,
 * the last one NULL. */
const struct option_row *command_option_next(const struct command *command,
					     const struct option_row *option);

/* Parses argv into the settings of the command.  0: go on; 1: --help was asked for
 * and is printed; -1: ERR_USAGE. */
int command_parse(const struct command *command, int argc, char **argv, void *settings,
		  struct err *err);

/* `fp8conv CMD --help` on standard output. */
void command_help(const struct command *command);

/* The options, and the run, of a command that prints facts: as text, or with --json. */
extern const struct option_row facts_options[];
int facts_run(const struct command *command, int argc, char **argv, void (*print_text)(void),
	      void (*print_json)(void), struct err *err);

/* ERR_USAGE for an argument too many; returns -1. */
int argument_unexpected(const char *argument, struct err *err);

#endif
