/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's row of the I/O table, and the loops over it.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h> /* renameat */
#include <unistd.h>

#include "base/mem.h"

static int system_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	return openat(dirfd, path, flags, mode);
}

/* Unlike posix_fallocate(), which writes the whole file where the file system cannot reserve space,
 * this reserves nothing there; a later write then reports a full disk. */
static int system_fallocate(int fd, off_t offset, off_t n)
{
	int rc;

	do
		rc = fallocate(fd, 0, offset, n) ? errno : 0;
	while (rc == EINTR);
	return rc == EOPNOTSUPP || rc == ENOSYS ? 0 : rc;
}

const struct io io_system = {
	.openat = system_openat,
	.close = close,
	.read = read,
	.write = write,
	.pread = pread,
	.pwrite = pwrite,
	.fallocate = system_fallocate,
	.ftruncate = ftruncate,
	.fsync = fsync,
	.renameat = renameat,
	.unlinkat = unlinkat,
	.mkdirat = mkdirat,
};

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

int io_identity(int fd, struct file_identity *identity, const char *name, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(err, "cannot read the state of '%s'", name);
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
		fd = io->openat(dirfd, path, flags, mode);
	while (fd < 0 && errno == EINTR);
	return fd;
}

DIR *io_open_directory(const struct io *io, int dirfd, const char *path, const char *name,
		       struct err *err)
{
	int fd = io_openat(io, dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (!stream)
		err_errno(err, "cannot open '%s'", name);
	if (!stream && fd >= 0)
		io->close(fd);
	return stream;
}

int io_open_regular(const struct io *io, int dirfd, const char *path, int *fd,
		    struct file_identity *identity, struct err *err)
{
	*fd = io_openat(io, dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (*fd < 0 &&
	    (errno == ENXIO || errno == ENODEV)) /* a socket, a device without a driver */
		return err_set(err, ERR_INPUT, "'%s' is not a regular file", path);
	if (*fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	if (io_identity(*fd, identity, path, err)) {
		io->close(*fd);
		*fd = -1;
		return -1;
	}
	return 0;
}

int io_check_unchanged(int fd, const struct file_identity *identity, const char *name,
		       struct err *err)
{
	struct file_identity now = { 0 };

	if (io_identity(fd, &now, name, err))
		return -1;
	if (!file_identity_equal(identity, &now))
		return err_set(err, ERR_INPUT, "'%s' changed while it was read", name);
	return 0;
}

int io_pread_full(const struct file *file, void *data, size_t n, uint64_t offset, struct err *err)
{
	char *p = data;

	if (offset > INT64_MAX || n > INT64_MAX - offset)
		return err_set(err, ERR_INPUT, "'%s' ends before byte %" PRIu64, file->name,
			       offset);
	while (n) {
		ssize_t got = file->io->pread(file->fd, p, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read '%s' at byte %" PRIu64, file->name,
					 offset);
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
		ssize_t put = file->io->pwrite(file->fd, p, n, (off_t)offset);

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
		ssize_t put = file->io->write(file->fd, p, n);

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
		ssize_t more = file->io->read(file->fd, (char *)data + *got, n - *got);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return err_errno(err, "cannot read '%s'", file->name);
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
	    io_check_unchanged(file.fd, &identity, path, err))
		goto out;
	rc = 0;
out:
	if (rc)
		buf_release(buf);
	io->close(file.fd);
	return rc;
}
