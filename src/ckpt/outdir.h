/* SPDX-License-Identifier: Apache-2.0
 *
 * An output directory.  It is created if needed, held by a lock, and addressed by its descriptor,
 * so that no other directory can take its place.  Small files appear whole or not at all.
 *
 * Order: outdir_open(); the functions below; outdir_sync(); outdir_close().  All failures are
 * ERR_SYSTEM, unless stated otherwise.
 */
#ifndef FP8CONV_CKPT_OUTDIR_H
#define FP8CONV_CKPT_OUTDIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

/* The lock of a job that writes to all of a directory. */
#define OUTDIR_LOCK ".fp8conv.lock"

struct outdir {
	const struct io *io;
	char *path; /* for messages; NULL: not open */
	int fd;
	bool created; /* by this process, which removes it if it stays empty */
	bool held;    /* outdir_open() failed because another process holds the lock */
	char *lock_name;
	int lock_fd;
};

/* Opens or creates path and the directories above it, and locks the lock file `lock` in it:
 * exclusively, or shared (parts of one job).  ERR_SYSTEM where another process holds the lock. */
int outdir_open(struct outdir *dir, const struct io *io, const char *path, const char *lock,
		bool shared, struct err *err);

/* Writes a small file of n bytes: temporary name, fsync, rename.  name may have subdirectories,
 * which are created; none of them may be a symbolic link. */
int outdir_put(const struct outdir *dir, const char *name, const void *data, size_t n,
	       struct err *err);

/* The same for a file of any size.  next() puts a piece of it into an empty buf, and leaves it
 * empty at the end. */
typedef void outdir_piece_fn(void *context, struct buf *piece);
int outdir_put_pieces(const struct outdir *dir, const char *name, outdir_piece_fn *next,
		      void *context, struct err *err);

/* The same for a text; writes nothing where it is empty. */
int outdir_put_text(const struct outdir *dir, const char *name, const struct buf *text,
		    struct err *err);

/* Copies the regular file `from_dir`/`name` to `name`, in the same way, whatever its size.
 * ERR_INTERRUPTED after a signal number in *stop (which may be NULL). */
int outdir_copy(const struct outdir *dir, const char *from_dir, const char *name,
		const atomic_int *stop, struct err *err);

/* Opens the directory of a relative name, which is created if wanted and needed; *base becomes the
 * last component.  None of the directories may be a symbolic link. */
int outdir_parent(const struct outdir *dir, const char *name, bool create, int *fd,
		  const char **base, struct err *err);

/* Removes a file if it exists. */
int outdir_remove(const struct outdir *dir, const char *name, struct err *err);

/* Does the directory have an entry with this name? */
bool outdir_has(const struct outdir *dir, const char *name);

/* Flushes the directory itself: renames before it are durable after it. */
int outdir_sync(const struct outdir *dir, struct err *err);

/* ERR_SYSTEM with both numbers unless `bytes` are free on the file system. */
int outdir_check_space(const struct outdir *dir, uint64_t bytes, struct err *err);

/* Take and release a second lock on the directory, which parts of a job hold while they read and
 * write the manifest.  Waits for the lock. */
int outdir_guard(const struct outdir *dir, int *guard, struct err *err);
void outdir_unguard(const struct outdir *dir, int guard);

/* Is it the name of a lock of a job that writes to a directory, or to a part of it? */
bool outdir_is_lock(const char *name);

/* Returns ".NAME.SUFFIX", which the caller frees: a file of this program that belongs to NAME.  If
 * that is too long for a file name, the end of NAME is replaced by its checksum. */
char *outdir_own_name(const char *name, const char *suffix);

/* Returns ".NAME.partial" in the same way. */
char *outdir_partial_name(const char *name);

/* Releases the lock, and removes the directory if this process created it and it is empty. */
void outdir_close(struct outdir *dir);

/* A file to write into a directory that is shared with other files.  The directory is created if
 * needed, and locked against other processes of fp8conv that write this file while it is
 * open.  A zeroed struct is safe to close. */
struct outfile {
	struct outdir dir;
	const char *name; /* in dir; points into the caller's path */
};

/* Opens the directory of path, which must outlive the struct.  ERR_SYSTEM where another process
 * writes this file. */
int outfile_open(struct outfile *file, const struct io *io, const char *path, struct err *err);
void outfile_close(struct outfile *file);

#endif
