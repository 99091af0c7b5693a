/* SPDX-License-Identifier: Apache-2.0
 *
 * A command is a file cmd_<name>.c ending in one row; the build lists them.  Its option table
 * serves the parser,
 * --help, the completions and the test that holds the man page against it.
 *
 * In the table, an argument written "a|b|c" lists all values there are: the parser refuses others,
 * the completions offer these.
 */
#ifndef FP8CONV_CLI_COMMAND_H
#define FP8CONV_CLI_COMMAND_H

#include <argp.h>
#include <stdbool.h>

#include "base/err.h"

/* Headings of `fp8conv --help`, in this order. */
enum command_group { GROUP_HIDDEN, GROUP_CONVERT, GROUP_LOOK, GROUP_ABOUT, N_GROUPS };

struct command {
	const char *name;
	const char *args;    /* "MODEL -o OUT" */
	const char *summary; /* one line */
	enum command_group group;
	const struct argp *argp;

	/* The exit status; -1: err says what failed, and with which status. */
	int (*run)(const struct command *command, int argc, char **argv, struct err *err);
};

extern const struct command *const commands[]; /* generated; NULL at the end */

const struct command *command_find(const char *name); /* NULL: no such command */

/* The rows of the command's options, those that every command has first, those of argp.children last:
 * NULL gives the first one, the last one NULL. Headings have no name. */
const struct argp_option *command_option_next(const struct command *command,
					      const struct argp_option *option);

/* state->input of a command's parser.  One that fails says why in err and returns anything but 0.
 */
struct parse_input {
	void *settings;
	struct err *err;
};

/* Parses argv by the command's table.  0: go on; 1: --help was asked for and is printed; -1:
 * ERR_USAGE. */
int command_parse(const struct command *command, int argc, char **argv, void *settings,
		  struct err *err);

/* `fp8conv CMD --help` on standard output. */
void command_help(const struct command *command);

/* The table of commands that print facts: --json alone, no argument.  The settings are a bool. */
extern const struct argp facts_argp;

/* ERR_USAGE for an argument too many; returns -1. */
int argument_unexpected(const char *argument, struct err *err);

#endif
