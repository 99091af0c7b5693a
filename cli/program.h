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
	const struct command *command; /* NULL: none was found */
	int argc;		       /* the words of its command line */
	char **argv;
	FILE *out, *err;	/* results; notes, summaries, progress */
	FILE *objects;		/* notes, errors and progress as lines of JSON; NULL: none */
	bool terminal;		/* they are the standard streams, which may be terminals */
	const atomic_int *stop; /* ends the run where it is not 0; NULL: signals do */
	/* Shows a running job, from a thread of its own, in place of lines on err; or NULL. */
	void (*progress)(void *caller, const struct sample *sample);
	void *caller;
};

/* Of the run; set before program_run(), which sets command, words and objects. */
extern struct program program;

/* Is the descriptor, STDOUT_FILENO or STDERR_FILENO, a terminal that the run prints on? */
bool program_on_terminal(int fd);

/* Makes standard error a stream of JSON lines, without any other text. */
void program_objects_on_err(void);

/* Writes JSON lines to the descriptor too, which stays the caller's.  Returns 0, or -1 with
 * errno. */
int program_objects_on(int fd);

/* Is it one of the words before any "--"?  For errors, which may be of the command line itself. */
bool program_has_word(int argc, char **argv, const char *word);

/* Runs the command of argv.  Returns its exit status, or -1 with the failure. */
int program_run(int argc, char **argv, struct err *err);

#endif
