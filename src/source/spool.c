/* SPDX-License-Identifier: Apache-2.0 */
#include "source/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

#define STREAM_CHUNK (1 << 20)
#define PIPE_CHUNK   (64 << 10) /* bytes of a pipe: a larger write would wait inside the kernel */
#define POLL_MS	     200

/* Waits until fd can be read or written, and for a signal at the same time. */
static int wait_ready(int fd, short events, const atomic_int *stop, struct err *err)
{
	struct pollfd ready = { .fd = fd, .events = events };

	do {
		if (progress_stopped(stop, err))
			return -1;
	} while (poll(&ready, 1, POLL_MS) <= 0);
	return 0;
}

/* Copies standard input to the file `to`, which has this name in messages. */
static int copy_all(const struct io *io, int to, const char *name, struct progress *progress,
		    struct err *err)
{
	char *chunk = xmalloc(STREAM_CHUNK);
	ssize_t got = 1;
	int rc = 0;

	while (!rc && got != 0) {
		rc = wait_ready(STDIN_FILENO, POLLIN, progress->stop, err);
		if (rc)
			break;
		got = io->read(io, STDIN_FILENO, chunk, STREAM_CHUNK);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			rc = err_errno(err, "cannot read standard input");
		else
			rc = io_write_full(&(struct file){ io, to, name }, chunk, (size_t)got, err);
		if (!rc)
			atomic_fetch_add(&progress->done, (uint64_t)got);
	}
	free(chunk);
	return rc;
}

/* Writes all n bytes.  Standard output may be non-blocking (O_NONBLOCK, set by another process that
 * shares it). */
static int send_all(const struct io *io, const char *data, size_t n, const atomic_int *stop,
		    struct err *err)
{
	for (size_t at = 0; at < n;) {
		ssize_t put;

		if (wait_ready(STDOUT_FILENO, POLLOUT, stop, err))
			return -1;
		put = io->write(io, STDOUT_FILENO, data + at,
				n - at < PIPE_CHUNK ? n - at : PIPE_CHUNK);
		if (put < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (put == 0)
			errno = EIO;
		if (put <= 0)
			return err_errno(err, "cannot write standard output");
		at += (size_t)put;
	}
	return 0;
}

int spool_read(const struct io *io, const char *temp_dir, struct progress *progress, int *fd,
	       struct err *err)
{
	struct stat st;
	char *name;
	int rc;

	if (!fstat(STDIN_FILENO, &st) && S_ISREG(st.st_mode) &&
	    lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
		*fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return *fd < 0 ? err_errno(err, "cannot read standard input") : 0;
	}
	*fd = io_openat(io, AT_FDCWD, temp_dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (*fd < 0)
		return err_errno(err, "cannot create a temporary file in '%s' (TMPDIR)", temp_dir);
	progress_begin(progress, PROGRESS_SPOOL, 0);
	name = xasprintf("%s/(copy of standard input in TMPDIR)", temp_dir);
	rc = copy_all(io, *fd, name, progress, err);
	free(name);
	if (rc) {
		io->close(io, *fd);
		*fd = -1;
	}
	return rc;
}

int spool_send(const struct io *io, int fd, uint64_t size, struct progress *progress,
	       struct err *err)
{
	char *chunk = xmalloc(STREAM_CHUNK);
	int rc = 0;

	progress_begin(progress, PROGRESS_SEND, size);
	for (uint64_t at = 0; !rc && at < size; at += STREAM_CHUNK) {
		size_t n = size - at < STREAM_CHUNK ? (size_t)(size - at) : STREAM_CHUNK;

		rc = io_pread_full(&(struct file){ io, fd, "the temporary output" }, chunk, n, at,
				   err);
		if (!rc)
			rc = send_all(io, chunk, n, progress->stop, err);
		if (!rc)
			atomic_fetch_add(&progress->done, n);
	}
	free(chunk);
	return rc;
}
