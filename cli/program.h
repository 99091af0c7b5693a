/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of the program, by main() or by a caller of the library: where it prints, and what ends it.
 * One at a time, because signals, descriptors and devices are of the process.
 */
#ifndef FP8CONV_CLI_PROGRAM_H
#define FP8CONV_CLI_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/command.h"

struct sample;

struct program {
	FILE *out, *err;	/* results; notes, summaries, progress */
	bool terminal;		/* they are the standard streams, which may be terminals */
	const atomic_int *stop; /* ends the run where it is not 0; NULL: signals do */
	/* Shows a running job, from a thread of its own, in place of lines on err; or NULL. */
	void (*progress)(void *caller, const struct sample *sample);
	void *caller;
};

/* Of the run; set before program_run(), and not changed by it. */
extern struct program program;

/* Is the descriptor, STDOUT_FILENO or STDERR_FILENO, a terminal that the run prints on? */
bool program_on_terminal(int fd);

/* Runs the command of argv.  Returns its exit status, or -1 with the failure.  *command becomes the
 * command, for messages; NULL where none was found. */
int program_run(int argc, char **argv, const struct command **command, struct err *err);

#endif
