/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/sort.h"

static void writer_init(struct writer *writer, const struct io *io, const char *name, uint64_t size)
{
	*writer = (struct writer){ .io = io,
				   .name = xstrdup(name),
				   .fd = -1,
				   .direct_fd = -1,
				   .size = size,
				   .lock = PTHREAD_MUTEX_INITIALIZER,
				   .turn = PTHREAD_MUTEX_INITIALIZER };
}

/* Is it a file system in memory?  It has no cache to bypass, and reserving its pages takes one
 * thread a third of the time of writing them. */
static bool is_in_memory(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

/* Reserves the space first, so that a full disk is noticed before the work and the file is
 * contiguous. */
static int writer_begin(struct writer *writer, const struct buf *header, struct err *err)
{
	int number = EOPNOTSUPP;

	if (writer->size && !is_in_memory(writer->fd))
		number = writer->io->fallocate(writer->io, writer->fd, 0, (off_t)writer->size);

	if (number == EOPNOTSUPP || number == EINVAL)
		number = writer->io->ftruncate(writer->io, writer->fd, (off_t)writer->size) ? errno
											    : 0;
	if (number) {
		errno = number;
		return err_errno(err, "cannot reserve %" PRIu64 " bytes for '%s'", writer->size,
				 writer->name);
	}
	return writer_pwrite(writer, header->data, header->len, 0, err);
}

/* Does the error of opening a file mean that no process writes it: missing, a link, a FIFO, a
 * directory? */
static bool is_no_file(int number)
{
	return number == ENOENT || number == ELOOP || number == ENXIO || number == EISDIR;
}

/* Removes the partial file of a dead run, but not one that another run is writing, or may be
 * writing, under whatever lock. */
static int remove_stale(const struct outdir *dir, const char *partial, struct err *err)
{
	int fd = io_openat(dir->io, dir->fd, partial,
			   O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	bool held;
	int rc;

	if (fd < 0 && !is_no_file(errno))
		return err_errno(err, "cannot check whether '%s/%s' is in use", dir->path, partial);
	held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	rc = held ? err_set(err, ERR_SYSTEM,
			    "'%s/%s' is being written by another fp8conv: try again later",
			    dir->path, partial)
		  : outdir_remove(dir, partial, err);
	if (fd >= 0)
		dir->io->close(dir->io, fd);
	return rc;
}

int writer_open(struct writer *writer, const struct outdir *dir, const char *name,
		const struct buf *header, uint64_t size, struct err *err)
{
	char *path = xasprintf("%s/%s", dir->path, name);

	writer_init(writer, dir->io, path, size);
	free(path);
	writer->final = writer->name + strlen(writer->name) - strlen(name);
	writer->dir = dir;
	writer->partial = outdir_partial_name(name);
	if (remove_stale(dir, writer->partial, err)) {
		free(writer->partial); /* another process's file: do not remove it */
		writer->partial = NULL;
		return -1;
	}
	writer->fd = io_openat(dir->io, dir->fd, writer->partial,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (writer->fd < 0)
		return err_errno(err, "cannot create '%s/%s'", dir->path, writer->partial);
	flock(writer->fd,
	      LOCK_EX | LOCK_NB); /* without file locks, only the directory's lock protects it */
	if (writer_begin(writer, header, err))
		return -1;
	if (!is_in_memory(writer->fd))
		writer->direct_fd = io_openat(dir->io, dir->fd, writer->partial,
					      O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_DIRECT, 0);
	return 0;
}

bool writer_is_direct(const struct writer *writer)
{
	return writer->direct_fd >= 0;
}

bool writer_takes_turns(const struct writer *writer)
{
	return writer->fd >= 0 && writer->direct_fd < 0;
}

int writer_open_anonymous(struct writer *writer, const struct io *io, const char *temp_dir,
			  const struct buf *header, uint64_t size, struct err *err)
{
	char *name = xasprintf("%s/(temporary output in TMPDIR)", temp_dir);

	writer_init(writer, io, name, size);
	free(name);
	writer->fd = io_openat(io, AT_FDCWD, temp_dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (writer->fd < 0)
		return err_errno(err, "cannot create a temporary file in '%s' (TMPDIR)", temp_dir);
	return writer_begin(writer, header, err);
}

int writer_open_nowhere(struct writer *writer, const struct io *io, const char *name,
			const struct buf *header, uint64_t size, struct err *err)
{
	writer_init(writer, io, name, size);
	return writer_pwrite(writer, header->data, header->len, 0, err);
}

static void piece_add(struct writer *writer, const void *data, size_t n, uint64_t offset)
{
	struct writer_piece piece = { .offset = offset, .size = n };

	piece.crc = crc32_gzip_refl(0, data, n);
	pthread_mutex_lock(&writer->lock);
	ARRAY_GROW(writer->pieces, writer->n_pieces);
	writer->pieces[writer->n_pieces++] = piece;
	pthread_mutex_unlock(&writer->lock);
}

/* Writes past the page cache where the file system allows it; some refuse (EINVAL) only here. */
static int body_pwrite(struct writer *writer, const char *data, size_t n, uint64_t offset,
		       struct err *err)
{
	struct file direct = { writer->io, writer->direct_fd, writer->name };
	struct file file = { writer->io, writer->fd, writer->name };

	errno = 0;
	if (!io_pwrite_full(&direct, data, n, offset, err))
		return 0;
	if (errno != EINVAL)
		return -1;
	return io_pwrite_full(&file, data, n, offset, err);
}

/* Direct I/O takes whole blocks; the bytes before and after them go through the page cache.  A
 * block that two callers share is at an edge for both, so the two ways never meet in one block. */
int writer_pwrite(struct writer *writer, const void *data, size_t n, uint64_t offset,
		  struct err *err)
{
	struct file file = { writer->io, writer->fd, writer->name };
	const char *bytes = data;
	uint64_t head = -offset & (WRITER_ALIGN - 1);
	uint64_t body;

	if (n == 0)
		return 0;
	piece_add(writer, data, n, offset);
	if (writer->fd < 0)
		return writer->take ? writer->take(writer->context, data, n, offset, err) : 0;
	if (head > n)
		head = n;
	body = (n - head) & ~(uint64_t)(WRITER_ALIGN - 1);
	if (!writer_is_direct(writer) || body == 0 ||
	    ((uintptr_t)(bytes + head) & (WRITER_ALIGN - 1)) != 0)
		return io_pwrite_full(&file, data, n, offset, err);
	if (io_pwrite_full(&file, bytes, head, offset, err) ||
	    body_pwrite(writer, bytes + head, body, offset + head, err))
		return -1;
	return io_pwrite_full(&file, bytes + head + body, n - head - body, offset + head + body,
			      err);
}

/* Checks that every byte was written exactly once, and combines the checksums of the pieces. */
static int pieces_check(struct writer *writer, uint32_t *crc, struct err *err)
{
	uint64_t at = 0;

	if (writer->n_pieces)
		qsort(writer->pieces, writer->n_pieces, sizeof *writer->pieces, compare_u64);
	*crc = 0;
	for (size_t i = 0; i < writer->n_pieces; i++) {
		const struct writer_piece *piece = &writer->pieces[i];

		if (piece->offset != at)
			break;
		*crc = (uint32_t)crc32_combine(*crc, piece->crc, (z_off_t)piece->size);
		at += piece->size;
	}
	if (at != writer->size)
		return err_set(err, ERR_SYSTEM,
			       "internal error: '%s' was planned with %" PRIu64
			       " bytes, but written up to %" PRIu64,
			       writer->name, writer->size, at);
	return 0;
}

static int writer_close(struct writer *writer, int *fd, struct err *err)
{
	int closing = *fd;

	*fd = -1;
	if (closing >= 0 && writer->io->close(writer->io, closing))
		return err_errno(err, "cannot write '%s'", writer->name);
	return 0;
}

int writer_commit(struct writer *writer, uint32_t *crc, struct err *err)
{
	const struct io *io = writer->io;

	if (pieces_check(writer, crc, err))
		return -1;
	if (!writer->dir)
		return 0;
	if (io->fsync(io, writer->fd))
		return err_errno(err, "cannot write '%s'", writer->name);
	if (writer_close(writer, &writer->direct_fd, err) || writer_close(writer, &writer->fd, err))
		return -1;
	if (io->renameat(io, writer->dir->fd, writer->partial, writer->dir->fd, writer->final))
		return err_errno(err, "cannot rename '%s' to '%s'", writer->partial, writer->name);
	free(writer->partial);
	writer->partial = NULL;
	return outdir_sync(writer->dir, err);
}

void writer_release(struct writer *writer)
{
	if (!writer->name)
		return;
	if (writer->direct_fd >= 0)
		writer->io->close(writer->io, writer->direct_fd);
	if (writer->fd >= 0)
		writer->io->close(writer->io, writer->fd);
	if (writer->partial)
		writer->io->unlinkat(writer->io, writer->dir->fd, writer->partial, 0);
	pthread_mutex_destroy(&writer->lock);
	pthread_mutex_destroy(&writer->turn);
	free(writer->pieces);
	free(writer->partial);
	free(writer->name);
	*writer = (struct writer){ 0 };
}
