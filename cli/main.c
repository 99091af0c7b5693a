/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv: runs the command on the standard streams.  For every command, a failed write is an
 * error, also the last write to standard output.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/print/message.h"
#include "cli/program.h"
#include "cli/signals.h"

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

/* Standard output: whether bytes were written, and the errno of the first failed write, which stdio
 * does not record. */
struct watched_output {
	bool used;
	int failed;
};

/* Writes all n bytes: after a short write, which a limit or a full disk makes, the next one has the
 * reason.  Returns fewer where that fails, which stdio takes for an error. */
static ssize_t write_stdout(void *cookie, const char *data, size_t n)
{
	struct watched_output *output = cookie;
	size_t done = 0;

	output->used = true;

	while (done < n) {
		ssize_t written = write(STDOUT_FILENO, data + done, n - done);

		if (written > 0) {
			done += (size_t)written;
		} else if (written == 0 || errno != EINTR || signals_caught()) {
			if (!output->failed)
				output->failed = written < 0 ? errno : EIO;
			break;
		}
	}
	return (ssize_t)done;
}

static FILE *watch_stdout(struct watched_output *output)
{
	FILE *watched = fopencookie(output, "w", (cookie_io_functions_t){ .write = write_stdout });

	if (!watched)
		return stdout;
	setvbuf(watched, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
	return watched;
}

/* The output may still be in memory, and a write that the file system accepted may still fail.  The
 * stream stays: the C++ library, which oneDNN loads, flushes it at exit. */
static int close_stdout(const struct watched_output *output, struct err *err)
{
	int failed;

	errno = 0;
	failed = fflush(program.out) || close(STDOUT_FILENO) ? (errno ? errno : EIO) : 0;
	if (!failed && ferror(program.out))
		failed = EIO;
	if (output->failed)
		failed = output->failed;
	if (!failed)
		return 0;
	errno = failed;
	err_errno(err, "cannot write standard output");
	err->kind = ERR_SYSTEM;
	return -1;
}

static int exit_status(const struct err *err)
{
	if (err->kind != ERR_INTERRUPTED)
		return (int)err->kind;
	return 128 + (signals_caught() ? signals_caught() : SIGTERM); /* another rank caught it */
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	static struct watched_output output; /* exit() may flush again */
	int status;

	json_set_alloc_funcs(xmalloc,
			     free); /* an object that lacks a member would be written as it is */
	hold_standard_streams();
	signals_to_errors();
	program = (struct program){ .out = watch_stdout(&output), .err = stderr, .terminal = true };
	status = program_run(argc, argv, &err);
	if (status >= 0 && close_stdout(&output, &err))
		status = -1;
	signals_unwatch();
	if (status >= 0)
		return status;
	/* the reader closed the pipe: `| head`; or another rank has the message */
	if (output.failed != EPIPE && err.message[0]) {
		bool empty = !output.used && !__fpending(program.out);

		message_error(err.message, exit_status(&err),
			      empty && program_has_word(argc, argv, "--json") ? program.out : NULL);
	}
	return exit_status(&err);
}
