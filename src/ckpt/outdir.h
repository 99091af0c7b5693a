/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory that output goes to.  It is created if need be, held by a lock, and addressed by its
 * descriptor from then on, so that nobody can put another directory in its place.  Small files
 * appear whole or not at all.
 */
#ifndef FP8CONV_CKPT_OUTDIR_H
#define FP8CONV_CKPT_OUTDIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

struct outdir {
	const struct io *io;
	char *path; /* for messages; NULL: not open */
	int fd;
	bool created; /* by us: removed again if it stays empty */
	bool held;    /* outdir_open() failed, for another process holds the lock */
	char *lock_name;
	int lock_fd;
};

/* Opens or creates path, with the directories that it lies in, and takes the lock file `lock` in
 * it, exclusively, or shared (parts of one job).  Held by another process: ERR_SYSTEM. */
int outdir_open(struct outdir *dir, const struct io *io, const char *path, const char *lock,
		bool shared, struct err *err);

/* Writes a small file: temporary name, fsync, rename.  name may lie in subfolders, which are
 * created; none of them may be a symbolic link. */
int outdir_put(const struct outdir *dir, const char *name, const void *data, size_t n,
	       struct err *err);

/* The same for a file of any size: next() puts a piece of it into an empty buf, and nothing behind
 * the last. */
typedef void outdir_piece_fn(void *context, struct buf *piece);
int outdir_put_pieces(const struct outdir *dir, const char *name, outdir_piece_fn *next,
		      void *context, struct err *err);

/* The same for a text; an empty one is not written. */
int outdir_put_text(const struct outdir *dir, const char *name, const struct buf *text,
		    struct err *err);

/* Copies the regular file `from` (path below directory `from_dir`) to `name`, in the same way,
 * whatever its size; a signal number in *stop (unless NULL) ends it. */
int outdir_copy(const struct outdir *dir, const char *from_dir, const char *name,
		const atomic_int *stop, struct err *err);

/* Removes a file if it is there. */
int outdir_remove(const struct outdir *dir, const char *name, struct err *err);

bool outdir_has(const struct outdir *dir, const char *name);

/* fsync of the directory itself: renames before it are durable after it. */
int outdir_sync(const struct outdir *dir, struct err *err);

/* ERR_SYSTEM with both numbers unless `bytes` are free on its file system. */
int outdir_check_space(const struct outdir *dir, uint64_t bytes, struct err *err);

/* A second lock on the directory, for reading and writing the manifest while other parts run: waits
 * for it. */
int outdir_guard(const struct outdir *dir, int *guard, struct err *err);
void outdir_unguard(const struct outdir *dir, int guard);

/* ".NAME.SUFFIX", to be freed: a file of ours that goes with NAME.  Where that is too long for a
 * file name, the end of NAME gives way to its checksum. */
char *outdir_own_name(const char *name, const char *suffix);

/* ".NAME.partial", in the same way. */
char *outdir_partial_name(const char *name);

/* Gives the lock back and, where it was created by us and is empty, removes the directory. */
void outdir_close(struct outdir *dir);

#endif
