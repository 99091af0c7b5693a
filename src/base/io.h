/* SPDX-License-Identifier: Apache-2.0
 *
 * The one I/O table.  Every byte that is read from or written to a file goes through it, so that a
 * test can let the N-th call fail.  A function that opens files takes a `const struct io *`;
 * programs pass &io_system.
 *
 * The entries behave as the system calls of their names (result, errno).  The first argument is the
 * table itself, so that a table can be the first member of a struct with state.
 *
 * The functions below repeat short transfers and EINTR, and turn failures into errors that name the
 * file: ERR_SYSTEM, or ERR_INPUT where the path is wrong (err_errno()).  What concerns outputs and
 * neither moves a byte nor makes a name uses the system itself: statvfs, locks, their state.
 */
#ifndef FP8CONV_BASE_IO_H
#define FP8CONV_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* The entries that are system calls, each with its parameters and the arguments of the call: those
 * that read, and those that write. */
/* clang-format off */
#define IO_READS(OP)                                                                          \
	OP(int, openat, (const struct io *io, int dirfd, const char *path, int flags,         \
			 mode_t mode), (dirfd, path, flags, mode))                            \
	OP(int, close, (const struct io *io, int fd), (fd))                                   \
	OP(ssize_t, read, (const struct io *io, int fd, void *data, size_t n), (fd, data, n)) \
	OP(ssize_t, pread, (const struct io *io, int fd, void *data, size_t n, off_t offset), \
	   (fd, data, n, offset))                                                             \
	OP(int, fstat, (const struct io *io, int fd, struct stat *st), (fd, st))              \
	OP(int, fstatat, (const struct io *io, int dirfd, const char *path, struct stat *st,  \
			  int flags), (dirfd, path, st, flags))
#define IO_WRITES(OP)                                                                         \
	OP(ssize_t, write, (const struct io *io, int fd, const void *data, size_t n),         \
	   (fd, data, n))                                                                     \
	OP(ssize_t, pwrite, (const struct io *io, int fd, const void *data, size_t n,         \
			     off_t offset), (fd, data, n, offset))                            \
	OP(int, ftruncate, (const struct io *io, int fd, off_t size), (fd, size))             \
	OP(int, fsync, (const struct io *io, int fd), (fd))                                   \
	OP(int, renameat, (const struct io *io, int from_fd, const char *from, int to_fd,     \
			   const char *to), (from_fd, from, to_fd, to))                       \
	OP(int, unlinkat, (const struct io *io, int dirfd, const char *path, int flags),      \
	   (dirfd, path, flags))                                                              \
	OP(int, mkdirat, (const struct io *io, int dirfd, const char *path, mode_t mode),     \
	   (dirfd, path, mode))
/* clang-format on */

struct io {
#define IO_MEMBER(type, name, parameters, arguments) type(*name) parameters;
	IO_READS(IO_MEMBER)
	IO_WRITES(IO_MEMBER)
#undef IO_MEMBER
	/* 0 or an errno; 0 where the file system cannot reserve space */
	int (*fallocate)(const struct io *io, int fd, off_t offset, off_t n);
	/* A hint; a failure means nothing. */
	void (*fadvise)(const struct io *io, int fd, off_t offset, off_t n, int advice);
	/* Calls take() with every name in the open directory fd, until it returns other than 0, and
	 * closes fd.  -1 with errno. */
	int (*list)(const struct io *io, int fd, int (*take)(void *context, const char *name),
		    void *context);
	/* Sets err to the reason of the failure that left errno, and returns true; false, or a
	 * NULL entry, where errno says all. */
	bool (*explain)(const struct io *io, struct err *err);
};

extern const struct io io_system;

/* The identity of a file when it was opened.  A different value later means that the file was
 * changed while it was read. */
struct file_identity {
	dev_t device;
	ino_t inode;
	uint64_t size; /* bytes */
	struct timespec mtime;
	struct timespec ctime;
};

/* openat() that tries again after EINTR.  Returns the file descriptor, or -1 with errno. */
int io_openat(const struct io *io, int dirfd, const char *path, int flags, mode_t mode);

/* In all functions below, name is the file's name for messages. */

/* Opens a regular file to read.  Opens with O_NONBLOCK, so that a FIFO cannot block; follows
 * symbolic links.  ERR_INPUT where the file is not a regular file. */
int io_open_regular(const struct io *io, int dirfd, const char *path, int *fd,
		    struct file_identity *identity, struct err *err);

/* A directory: path from dirfd on.  The name is for messages. */
struct directory {
	const struct io *io;
	int dirfd;
	const char *path, *name;
};

/* Calls take() with every name in a directory, until take() returns other than 0. */
int io_list(const struct directory *directory, int (*take)(void *context, const char *name),
	    void *context, struct err *err);

/* Is there a file or a directory at path, of any table?  A broken link is one. */
bool io_exists(const struct io *io, const char *path);
bool io_exists_in(const struct io *io, const char *directory, const char *name);

/* As err_errno(), with the reason that the table knows. */
int io_failed(const struct io *io, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* An open file.  The name is for messages. */
struct file {
	const struct io *io;
	int fd;
	const char *name;
};

/* Reads exactly n bytes at offset (in bytes).  ERR_INPUT ("truncated") where the file ends before
 * that. */
int io_pread_full(const struct file *file, void *data, size_t n, uint64_t offset, struct err *err);
/* Write exactly n bytes, at offset or at the current position. */
int io_pwrite_full(const struct file *file, const void *data, size_t n, uint64_t offset,
		   struct err *err);
int io_write_full(const struct file *file, const void *data, size_t n, struct err *err);

/* Reads up to n bytes from a stream, fewer only at its end.  *got becomes the number of bytes. */
int io_read_full(const struct file *file, void *data, size_t n, size_t *got, struct err *err);

/* Reads a whole small file into buf.  ERR_INPUT where it is larger than limit bytes. */
int io_read_file(const struct io *io, int dirfd, const char *path, size_t limit, struct buf *buf,
		 struct err *err);

/* Reads the identity of the open file fd.  ERR_INPUT unless it is a regular file. */
int io_identity(const struct io *io, int fd, struct file_identity *identity, const char *name,
		struct err *err);

/* ERR_INPUT "changed while it was read" unless the open file still has this identity. */
int io_check_unchanged(const struct file *file, const struct file_identity *identity,
		       struct err *err);

/* Compares two open files of these sizes.  *at becomes the first byte that differs, the size of the
 * shorter one where the longer one begins with it, UINT64_MAX where they are equal. */
int io_compare(const struct file files[2], const uint64_t sizes[2], uint64_t *at, struct err *err);

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);

#endif
