/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a file or pipe in order, decompressed where they are gzip (RFC 1952) or zstd
 * (RFC 8878), also of several consecutive members or frames.  The first bytes decide, not the name:
 * no valid UTF-8 begins as these formats do.
 *
 * Order: stream_open(); stream_fill(), use of text from `begin` on, stream_forget(), and again;
 * stream_close().
 */
#ifndef FP8CONV_DATASET_STREAM_H
#define FP8CONV_DATASET_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/io.h"

struct unpacker;

struct stream {
	const struct io *io;
	const char *name;	/* for messages */
	const atomic_int *stop; /* ends the wait for a pipe */
	int fd;
	bool is_file; /* a regular file: read by offset; it must not change meanwhile */
	struct file_identity identity;

	unsigned char *raw; /* bytes of the file, of which [raw_begin, raw_end) are unused */
	size_t raw_begin, raw_end;
	uint64_t raw_at; /* offset in the file up to which it was read */
	bool raw_ended;
	struct unpacker *unpacker; /* NULL: not compressed */

	struct buf text; /* decompressed bytes, unused from `begin` on */
	size_t begin;
	uint64_t offset; /* of text.data in all decompressed bytes */
	bool ended;	 /* text is the rest of the stream */
};

/* Opens a file or pipe, or standard input for path "-", and reads the first bytes, without a byte
 * order mark.  The caller closes the stream, but not after a failure.  ERR_INPUT for a directory,
 * device or terminal. */
int stream_open(struct stream *stream, const struct io *io, const char *path,
		const atomic_int *stop, struct err *err);

/* Appends n bytes to text, or fewer at the end of the stream.  ERR_INPUT for compressed data that
 * is truncated or invalid. */
int stream_fill(struct stream *stream, uint64_t n, struct err *err);

/* Drops the bytes of text before `begin`. */
void stream_forget(struct stream *stream);

/* Closes the stream.  Returns rc, or -1 with ERR_INPUT where the file was changed meanwhile. */
int stream_close(struct stream *stream, int rc, struct err *err);

#endif
