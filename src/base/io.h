/* SPDX-License-Identifier: Apache-2.0
 *
 * The one I/O table.  Every byte that is read from or written to a file goes through it, so that a
 * test can fail the N-th call.  Whoever opens files is given a `const struct io *`; programs pass
 * &io_system.
 *
 * The entries behave as the system calls they are named after (result, errno).  The functions below
 * loop over short transfers and EINTR and turn failures into errors that name the file.  Only what
 * moves no byte and makes no name is asked of the system itself: stat, statvfs, locks, the names in
 * a folder that was opened here.
 */
#ifndef FP8CONV_BASE_IO_H
#define FP8CONV_BASE_IO_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct io {
	int (*openat)(int dirfd, const char *path, int flags, mode_t mode);
	int (*close)(int fd);
	ssize_t (*read)(int fd, void *data, size_t n);
	ssize_t (*write)(int fd, const void *data, size_t n);
	ssize_t (*pread)(int fd, void *data, size_t n, off_t offset);
	ssize_t (*pwrite)(int fd, const void *data, size_t n, off_t offset);
	int (*fallocate)(int fd, off_t offset,
			 off_t n); /* 0 or an errno; 0 where it cannot be done */
	int (*ftruncate)(int fd, off_t size);
	int (*fsync)(int fd);
	int (*renameat)(int olddirfd, const char *oldpath, int newdirfd, const char *newpath);
	int (*unlinkat)(int dirfd, const char *path, int flags);
	int (*mkdirat)(int dirfd, const char *path, mode_t mode);
};

extern const struct io io_system;

/* What a file was when it was opened: another value later means it was changed while it was
 * read. */
struct file_identity {
	dev_t device;
	ino_t inode;
	uint64_t size; /* bytes */
	struct timespec mtime;
	struct timespec ctime;
};

/* openat that is tried again after EINTR. */
int io_openat(const struct io *io, int dirfd, const char *path, int flags, mode_t mode);

/* name is for messages in all of these. */

/* Opens a regular file to read (O_NONBLOCK while opening, so that a FIFO cannot hang us; symbolic
 * links are followed).  Anything but a regular file is ERR_INPUT. */
int io_open_regular(const struct io *io, int dirfd, const char *path, int *fd,
		    struct file_identity *identity, struct err *err);

/* Opens a folder to list; closedir() it.  NULL on failure. */
DIR *io_open_directory(const struct io *io, int dirfd, const char *path, const char *name,
		       struct err *err);

/* An open file.  The name is for messages. */
struct file {
	const struct io *io;
	int fd;
	const char *name;
};

/* Reads exactly n bytes at offset; the end of the file before that is ERR_INPUT ("truncated"). */
int io_pread_full(const struct file *file, void *data, size_t n, uint64_t offset, struct err *err);
int io_pwrite_full(const struct file *file, const void *data, size_t n, uint64_t offset,
		   struct err *err);
int io_write_full(const struct file *file, const void *data, size_t n, struct err *err);

/* Reads up to n bytes from a stream, fewer only at its end; *got says how many. */
int io_read_full(const struct file *file, void *data, size_t n, size_t *got, struct err *err);

/* A whole small file into buf; larger than limit bytes is ERR_INPUT. */
int io_read_file(const struct io *io, int dirfd, const char *path, size_t limit, struct buf *buf,
		 struct err *err);

/* What the open file fd is; ERR_INPUT unless it is a regular one. */
int io_identity(int fd, struct file_identity *identity, const char *name, struct err *err);

/* ERR_INPUT "changed while it was read" unless fd still is what identity says. */
int io_check_unchanged(int fd, const struct file_identity *identity, const char *name,
		       struct err *err);

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);

#endif
