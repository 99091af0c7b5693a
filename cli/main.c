/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv: finds the command and runs it.  For every command, a failed write is an error, also the
 * last write to standard output.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/print/wrap.h"
#include "cli/signals.h"

#define SUMMARY_COLUMN 14

/* The next file to be opened would get the descriptor of a standard stream that the caller closed,
 * and then receive the output.  /dev/null takes its place, opened in the wrong direction, so that
 * every use is an error. */
static void hold_standard_streams(void)
{
	static const int flags[] = { O_WRONLY, O_RDONLY, O_RDONLY };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags[fd]) < 0)
			_exit(ERR_SYSTEM);
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name, struct err *err)
{
	const char **names = NULL;
	size_t n = 0;

	for (size_t i = 0; commands[i]; i++) {
		if (!commands[i]->group)
			continue;
		ARRAY_GROW(names, n);
		names[n++] = commands[i]->name;
	}
	ARRAY_GROW(names, n);
	names[n] = NULL;
	words_unknown("command", name, names, "fp8conv --help", err);
	free(names);
	return -1;
}

static void print_command(const struct command *command, size_t width)
{
	printf("  %-*s", SUMMARY_COLUMN - 2, command->name);
	wrap_print(command->summary, SUMMARY_COLUMN, SUMMARY_COLUMN, width);
}

static void print_usage(void)
{
	static const char *const headings[N_GROUPS] = { NULL, "Calibrating", "Converting",
							"Inspecting", "Information" };
	size_t width = wrap_width(STDOUT_FILENO);

	puts("Usage: fp8conv COMMAND [OPTION...] [ARGUMENT...]");
	wrap_print("Convert LLM checkpoints (safetensors, Hugging Face layout) to FP8.", 0, 0,
		   width);
	for (int group = GROUP_HIDDEN + 1; group < N_GROUPS; group++) {
		printf("\n%s:\n", headings[group]);
		for (size_t i = 0; commands[i]; i++)
			if ((int)commands[i]->group == group)
				print_command(commands[i], width);
	}
	putchar('\n');
	wrap_print("See 'fp8conv help COMMAND' or the man page fp8conv-COMMAND(1) for "
		   "more.",
		   0, 0, width);
	puts("'fp8conv --version' (-V) prints the version.");
}

static int help(int argc, char **argv, struct err *err)
{
	const struct command *command;

	if (argc > 2)
		return argument_unexpected(argv[2], err);
	if (argc < 2) {
		print_usage();
		return 0;
	}
	command = command_find(argv[1]);
	if (!command)
		return unknown_command(argv[1], err);
	command_help(command);
	return 0;
}

/* *command becomes the command found, for messages. */
static int dispatch(int argc, char **argv, const struct command **command, struct err *err)
{
	if (argc < 2)
		return err_set(err, ERR_USAGE, "no command given (see 'fp8conv --help')");
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help(argc - 1, argv + 1, err);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("fp8conv " FP8CONV_VERSION);
		return 0;
	}
	*command = command_find(argv[1]);
	if (!*command)
		return unknown_command(argv[1], err);
	return (*command)->run(*command, argc - 1, argv + 1, err);
}

/* Writes all n bytes: after a short write, which a limit or a full disk makes, the next one has the
 * reason.  Returns fewer where that fails, which stdio takes for an error. */
static ssize_t write_stdout(void *cookie, const char *data, size_t n)
{
	int *failed = cookie;
	size_t done = 0;

	while (done < n) {
		ssize_t written = write(STDOUT_FILENO, data + done, n - done);

		if (written > 0) {
			done += (size_t)written;
		} else if (written == 0 || errno != EINTR || signals_caught()) {
			if (!*failed)
				*failed = written < 0 ? errno : EIO;
			break;
		}
	}
	return (ssize_t)done;
}

/* *failed becomes the errno of the first failed write; stdio itself records only that a write
 * failed. */
static void watch_stdout(int *failed)
{
	FILE *watched = fopencookie(failed, "w", (cookie_io_functions_t){ .write = write_stdout });

	if (!watched)
		return;
	setvbuf(watched, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
	stdout = watched;
}

/* The output may still be in memory, and a write that the file system accepted may still fail.  The
 * stream stays: the C++ library, which oneDNN loads, flushes it at exit. */
static int close_stdout(const int *first, struct err *err)
{
	int failed;

	errno = 0;
	failed = fflush(stdout) || close(STDOUT_FILENO) ? (errno ? errno : EIO) : 0;
	if (!failed && ferror(stdout))
		failed = EIO;
	if (*first)
		failed = *first;
	if (!failed)
		return 0;
	errno = failed;
	err_errno(err, "cannot write standard output");
	err->kind = ERR_SYSTEM;
	return -1;
}

int main(int argc, char **argv)
{
	const struct command *command = NULL;
	struct err err = { 0 };
	static int failed; /* errno of standard output, which exit() may flush again */
	int status;

	json_set_alloc_funcs(xmalloc,
			     free); /* an object that lacks a member would be written as it is */
	hold_standard_streams();
	signals_to_errors();
	watch_stdout(&failed);
	status = dispatch(argc, argv, &command, &err);
	if (status >= 0 && close_stdout(&failed, &err))
		status = -1;
	signals_unwatch();
	if (status >= 0)
		return status;
	/* the reader closed the pipe: `| head`; or another rank has the message */
	if (failed != EPIPE && err.message[0])
		fprintf(stderr, "fp8conv%s%s: %s\n", command ? " " : "",
			command ? command->name : "", err.message);
	if (err.kind != ERR_INTERRUPTED)
		return (int)err.kind;
	return 128 + (signals_caught() ? signals_caught() : SIGTERM); /* another rank caught it */
}
