/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a file or pipe in order, decompressed where they are gzip (RFC 1952) or zstd
 * (RFC 8878), several members or frames after each other too.  The first bytes tell, not the name:
 * neither format begins as UTF-8 does.
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
	bool is_file; /* a regular one: read by offset, and not to change meanwhile */
	struct file_identity identity;

	unsigned char *raw; /* as the file has them: [raw_begin, raw_end) */
	size_t raw_begin, raw_end;
	uint64_t raw_at; /* of the file, read so far */
	bool raw_ended;
	struct unpacker *unpacker; /* NULL: nothing is compressed */

	struct buf text; /* bytes that are not used yet: from `begin` */
	size_t begin;
	uint64_t offset; /* of text.data in all bytes */
	bool ended;	 /* nothing follows text */
};

/* path "-" is standard input.  Reads the first bytes, without a byte order mark.  ERR_INPUT for a
 * directory, device or terminal.  On failure nothing is to be closed. */
int stream_open(struct stream *stream, const struct io *io, const char *path,
		const atomic_int *stop, struct err *err);

/* Appends up to n bytes to text, fewer only where the stream ends.  ERR_INPUT: truncated or
 * damaged. */
int stream_fill(struct stream *stream, uint64_t n, struct err *err);

/* Forgets the bytes of text before `begin`. */
void stream_forget(struct stream *stream);

/* Closes it.  Returns rc, or -1 where the file was changed meanwhile. */
int stream_close(struct stream *stream, int rc, struct err *err);

#endif
