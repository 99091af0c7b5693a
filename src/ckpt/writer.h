/* SPDX-License-Identifier: Apache-2.0
 *
 * One output file of known size.  Any number of threads write it in any order, and it gets its
 * final name only when it is complete: temporary name, space reserved, every byte counted, fsync,
 * rename.
 *
 * Order: one of writer_open*(); writer_pwrite() from any thread; writer_commit(); writer_release().
 */
#ifndef FP8CONV_CKPT_WRITER_H
#define FP8CONV_CKPT_WRITER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "ckpt/outdir.h"

#define WRITER_ALIGN 4096 /* bytes: of file offset and memory, for O_DIRECT */

struct writer_piece {
	uint64_t offset;
	uint64_t size;
	uint32_t crc;
};

/* Takes n bytes at `offset` of a file in place of the disk.  Called from any thread. */
typedef int writer_take_fn(void *context, const void *data, size_t n, uint64_t offset,
			   struct err *err);

struct writer {
	const struct io *io;
	const struct outdir *dir; /* NULL: an anonymous file in temp_dir, or no file */
	char *name;		  /* path for messages; NULL: the writer is not open */
	const char *final;	  /* the name in dir, in it */
	char *partial;
	int fd;	       /* -1: bytes are counted, and taken or not, but not written */
	int direct_fd; /* the same file, O_DIRECT; -1 where the file system has no O_DIRECT */
	uint64_t size; /* bytes of the finished file */
	pthread_mutex_t lock;
	pthread_mutex_t turn; /* of threads with buffered writes: write_queue.h */
	size_t n_pieces;      /* written so far: they must cover the file exactly */
	struct writer_piece *pieces;
	writer_take_fn *take; /* of a writer without a file, set after it is opened; NULL: none */
	void *context;
};

/* Creates the file, reserves `size` bytes, and writes the header. */
int writer_open(struct writer *writer, const struct outdir *dir, const char *name,
		const struct buf *header, uint64_t size, struct err *err);

/* Creates an unlinked file in directory temp_dir, for a stream. */
int writer_open_anonymous(struct writer *writer, const struct io *io, const char *temp_dir,
			  const struct buf *header, uint64_t size, struct err *err);

/* Creates no file: counts the bytes and computes their checksum. */
int writer_open_nowhere(struct writer *writer, const struct io *io, const char *name,
			const struct buf *header, uint64_t size, struct err *err);

/* Writes n bytes at offset; no byte may be written twice.  Where data and offset agree modulo
 * WRITER_ALIGN, whole blocks bypass the page cache.  Thread-safe. */
int writer_pwrite(struct writer *writer, const void *data, size_t n, uint64_t offset,
		  struct err *err);

/* Do whole blocks bypass the page cache? */
bool writer_is_direct(const struct writer *writer);

/* Do writes of two threads wait for each other?  Not past the page cache, nor without a file. */
bool writer_takes_turns(const struct writer *writer);

/* Checks that every byte was written, then calls fsync and rename.  *crc becomes the CRC-32
 * (zlib's) of the file.  ERR_SYSTEM, such as ENOSPC and EIO, removes the file. */
int writer_commit(struct writer *writer, uint32_t *crc, struct err *err);

/* Removes an uncommitted file.  Safe on a zeroed or committed writer. */
void writer_release(struct writer *writer);

#endif
