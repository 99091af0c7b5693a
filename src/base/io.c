/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's row of the I/O table, and the loops over it.
 */
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE ((size_t)1 << 20) /* bytes of one comparison */

#define SYSTEM(type, name, parameters, arguments) \
	static type system_##name parameters      \
	{                                         \
		(void)io;                         \
		return name arguments;            \
	}
IO_READS(SYSTEM)
IO_WRITES(SYSTEM)

/* Unlike posix_fallocate(), which writes the whole file where the file system cannot reserve space,
 * this reserves nothing there; a later write then reports a full disk. */
static int system_fallocate(const struct io *io, int fd, off_t offset, off_t n)
{
	int rc;

	(void)io;
	do
		rc = fallocate(fd, 0, offset, n) ? errno : 0;
	while (rc == EINTR);
	return rc == EOPNOTSUPP || rc == ENOSYS ? 0 : rc;
}

static void system_fadvise(const struct io *io, int fd, off_t offset, off_t n, int advice)
{
	(void)io;
	posix_fadvise(fd, offset, n, advice);
}

static int system_list(const struct io *io, int fd, int (*take)(void *context, const char *name),
		       void *context)
{
	DIR *stream = fdopendir(fd);
	const struct dirent *entry = NULL;
	int number;

	if (!stream) {
		number = errno;
		io->close(io, fd);
		errno = number;
		return -1;
	}
	while ((errno = 0, entry = readdir(stream)))
		if (take(context, entry->d_name))
			break;
	number = entry ? 0 : errno;
	closedir(stream);
	errno = number;
	return number ? -1 : 0;
}

/* clang-format off */
#define ENTRY(type, name, parameters, arguments) .name = system_##name,
const struct io io_system = {
	IO_READS(ENTRY) IO_WRITES(ENTRY)
	.fallocate = system_fallocate,
	.fadvise = system_fadvise,
	.list = system_list,
};
/* clang-format on */

int io_failed(const struct io *io, struct err *err, const char *format, ...)
{
	char text[sizeof err->message];
	int number = errno;
	va_list args;

	if (io->explain && io->explain(io, err))
		return -1;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	errno = number;
	return err_errno(err, "%s", text);
}

static struct file_identity identity_of(const struct stat *st)
{
	return (struct file_identity){
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       same_time(&a->mtime, &b->mtime) && same_time(&a->ctime, &b->ctime);
}

int io_identity(const struct io *io, int fd, struct file_identity *identity, const char *name,
		struct err *err)
{
	struct stat st;

	if (io->fstat(io, fd, &st))
		return io_failed(io, err, "cannot read the state of '%s'", name);
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_INPUT, "'%s' is a directory, not a file", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INPUT, "'%s' is not a regular file", name);
	*identity = identity_of(&st);
	return 0;
}

int io_openat(const struct io *io, int dirfd, const char *path, int flags, mode_t mode)
{
	int fd;

	do
		fd = io->openat(io, dirfd, path, flags, mode);
	while (fd < 0 && errno == EINTR);
	return fd;
}

int io_list(const struct directory *directory, int (*take)(void *context, const char *name),
	    void *context, struct err *err)
{
	const struct io *io = directory->io;
	int fd = io_openat(io, directory->dirfd, directory->path,
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return io_failed(io, err, "cannot open '%s'", directory->name);
	if (io->list(io, fd, take, context))
		return io_failed(io, err, "cannot read '%s'", directory->name);
	return 0;
}

bool io_exists(const struct io *io, const char *path)
{
	struct stat st;

	return !io->fstatat(io, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW);
}

bool io_exists_in(const struct io *io, const char *directory, const char *name)
{
	char *path = xasprintf("%s/%s", directory, name);
	bool found = io_exists(io, path);

	free(path);
	return found;
}

int io_open_regular(const struct io *io, int dirfd, const char *path, int *fd,
		    struct file_identity *identity, struct err *err)
{
	*fd = io_openat(io, dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (*fd < 0 &&
	    (errno == ENXIO || errno == ENODEV)) /* a socket, a device without a driver */
		return err_set(err, ERR_INPUT, "'%s' is not a regular file", path);
	if (*fd < 0)
		return io_failed(io, err, "cannot open '%s'", path);
	if (io_identity(io, *fd, identity, path, err)) {
		io->close(io, *fd);
		*fd = -1;
		return -1;
	}
	return 0;
}

int io_check_unchanged(const struct file *file, const struct file_identity *identity,
		       struct err *err)
{
	struct file_identity now = { 0 };

	if (io_identity(file->io, file->fd, &now, file->name, err))
		return -1;
	if (!file_identity_equal(identity, &now))
		return err_set(err, ERR_INPUT, "'%s' changed while it was read", file->name);
	return 0;
}

int io_pread_full(const struct file *file, void *data, size_t n, uint64_t offset, struct err *err)
{
	char *p = data;

	if (offset > INT64_MAX || n > INT64_MAX - offset)
		return err_set(err, ERR_INPUT, "'%s' ends before byte %" PRIu64, file->name,
			       offset);
	while (n) {
		ssize_t got = file->io->pread(file->io, file->fd, p, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return io_failed(file->io, err, "cannot read '%s' at byte %" PRIu64,
					 file->name, offset);
		if (!got)
			return err_set(err, ERR_INPUT,
				       "'%s' is truncated: it ends at byte %" PRIu64
				       ", %zu bytes early",
				       file->name, offset, n);
		p += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

int io_pwrite_full(const struct file *file, const void *data, size_t n, uint64_t offset,
		   struct err *err)
{
	const char *p = data;

	while (n) {
		ssize_t put = file->io->pwrite(file->io, file->fd, p, n, (off_t)offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			if (!put)
				errno = EIO; /* no progress without an error: end the loop */
			return err_errno(err, "cannot write '%s' at byte %" PRIu64, file->name,
					 offset);
		}
		p += put;
		n -= (size_t)put;
		offset += (uint64_t)put;
	}
	return 0;
}

int io_write_full(const struct file *file, const void *data, size_t n, struct err *err)
{
	const char *p = data;

	while (n) {
		ssize_t put = file->io->write(file->io, file->fd, p, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			if (!put)
				errno = EIO;
			return err_errno(err, "cannot write '%s'", file->name);
		}
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

int io_read_full(const struct file *file, void *data, size_t n, size_t *got, struct err *err)
{
	*got = 0;
	while (*got < n) {
		ssize_t more = file->io->read(file->io, file->fd, (char *)data + *got, n - *got);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return io_failed(file->io, err, "cannot read '%s'", file->name);
		if (!more)
			break;
		*got += (size_t)more;
	}
	return 0;
}

int io_read_file(const struct io *io, int dirfd, const char *path, size_t limit, struct buf *buf,
		 struct err *err)
{
	struct file file = { .io = io, .name = path };
	struct file_identity identity = { 0 };
	int rc = -1;

	if (io_open_regular(io, dirfd, path, &file.fd, &identity, err))
		return -1;
	if (identity.size > limit) {
		err_set(err, ERR_INPUT, "'%s' is %" PRIu64 " bytes long, more than the limit (%zu)",
			path, identity.size, limit);
		goto out;
	}
	buf_release(buf);
	buf->len = (size_t)identity.size;
	buf->cap = buf->len + 1;
	buf->data = xmalloc(buf->cap);
	buf->data[buf->len] = '\0';
	if (io_pread_full(&file, buf->data, buf->len, 0, err) ||
	    io_check_unchanged(&file, &identity, err))
		goto out;
	rc = 0;
out:
	if (rc)
		buf_release(buf);
	io->close(io, file.fd);
	return rc;
}

int io_compare(const struct file files[2], const uint64_t sizes[2], uint64_t *at, struct err *err)
{
	uint64_t end = sizes[0] < sizes[1] ? sizes[0] : sizes[1];
	char *pieces = xmalloc(2 * PIECE);
	int rc = 0;

	*at = UINT64_MAX;
	for (uint64_t begin = 0; begin < end && *at == UINT64_MAX; begin += PIECE) {
		size_t n = end - begin < PIECE ? (size_t)(end - begin) : PIECE, i = 0;

		rc = io_pread_full(&files[0], pieces, n, begin, err);
		if (!rc)
			rc = io_pread_full(&files[1], pieces + PIECE, n, begin, err);
		if (rc)
			break;
		while (i < n && pieces[i] == pieces[PIECE + i])
			i++;
		if (i < n)
			*at = begin + i;
	}
	if (*at == UINT64_MAX && sizes[0] != sizes[1])
		*at = end;
	free(pieces);
	return rc;
}
