/* SPDX-License-Identifier: Apache-2.0
 *
 * A command is a file cmd_<name>.c ending in one row; the build lists them.  Its option table serves the parser, --help,
 * the completions and the test that holds the man page against it.
 */
#ifndef FP8CONV_CLI_COMMAND_H
#define FP8CONV_CLI_COMMAND_H

#include <argp.h>

struct command {
	const char *name;
	const char *args;    /* "MODEL -o OUT" */
	const char *summary; /* one line */
	const struct argp *argp;
	int (*run)(int argc, char **argv); /* the exit status */
};

extern const struct command *const commands[]; /* generated; NULL at the end */

#endif
