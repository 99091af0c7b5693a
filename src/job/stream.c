/* SPDX-License-Identifier: Apache-2.0 */
#include "job/stream.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

#define STREAM_CHUNK (1 << 20)

static int check_stop(const atomic_int *stop, struct err *err)
{
	if (!stop || !atomic_load(stop))
		return 0;
	return err_set(err, ERR_INTERRUPTED, "interrupted by signal %d", atomic_load(stop));
}

static int copy_all(const struct io *io, int to, const atomic_int *stop, struct err *err)
{
	char *chunk = xmalloc(STREAM_CHUNK);
	size_t got = STREAM_CHUNK;
	int rc = 0;

	while (!rc && got == STREAM_CHUNK) {
		rc = check_stop(stop, err);
		if (!rc)
			rc = io_read_full(io, STDIN_FILENO, chunk, STREAM_CHUNK, &got, "standard input", err);
		if (!rc)
			rc = io_write_full(io, to, chunk, got, "the temporary file of standard input", err);
	}
	free(chunk);
	return rc;
}

int stream_spool(const struct io *io, const char *temp_dir, const atomic_int *stop, int *fd, struct err *err)
{
	struct stat st;

	if (!fstat(STDIN_FILENO, &st) && S_ISREG(st.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
		*fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return *fd < 0 ? err_errno(err, "cannot read standard input") : 0;
	}
	*fd = io->openat(AT_FDCWD, temp_dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (*fd < 0)
		return err_errno(err, "cannot create a temporary file in '%s'", temp_dir);
	if (copy_all(io, *fd, stop, err)) {
		io->close(*fd);
		*fd = -1;
		return -1;
	}
	return 0;
}

int stream_send(const struct io *io, int fd, uint64_t size, const atomic_int *stop, struct err *err)
{
	char *chunk = xmalloc(STREAM_CHUNK);
	int rc = 0;

	for (uint64_t at = 0; !rc && at < size; at += STREAM_CHUNK) {
		size_t n = size - at < STREAM_CHUNK ? (size_t)(size - at) : STREAM_CHUNK;

		rc = check_stop(stop, err);
		if (!rc)
			rc = io_pread_full(io, fd, chunk, n, at, "the temporary output", err);
		if (!rc)
			rc = io_write_full(io, STDOUT_FILENO, chunk, n, "standard output", err);
	}
	free(chunk);
	return rc;
}
