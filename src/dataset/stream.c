/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/progress.h"

struct unpacker;

/* An input and an output buffer, and the number of bytes of each that are done. */
struct unpack_buffers {
	const unsigned char *in;
	size_t n_in, in_done;
	unsigned char *out;
	size_t n_out, out_done;
	bool last; /* in has the last bytes of the file */
};

#define GZIP_WINDOW (15 + 16) /* of inflateInit2(): a gzip header, the largest window */

struct unpacker {
	z_stream gzip;
	ZSTD_DStream *zstd; /* NULL: gzip */
	bool inside;	    /* of a member or frame */
};

/* Makes the unpacker for a file by its first n bytes; *unpacker becomes NULL where the file is not
 * compressed.  The caller frees it.  ERR_SYSTEM without memory. */
static int unpacker_new(struct unpacker **unpacker, const unsigned char *bytes, size_t n,
			struct err *err)
{
	static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
	bool is_gzip = n >= sizeof gzip && !memcmp(bytes, gzip, sizeof gzip);
	bool is_zstd = n >= sizeof zstd && !memcmp(bytes, zstd, sizeof zstd);
	bool made;

	*unpacker = NULL;
	if (!is_gzip && !is_zstd)
		return 0;
	*unpacker = xcalloc(1, sizeof **unpacker);
	if (is_zstd)
		made = ((*unpacker)->zstd = ZSTD_createDStream()) != NULL;
	else
		made = inflateInit2(&(*unpacker)->gzip, GZIP_WINDOW) == Z_OK;
	if (made)
		return 0;
	free(*unpacker);
	*unpacker = NULL;
	return err_set(err, ERR_SYSTEM, "out of memory: cannot start to decompress");
}

static void unpacker_free(struct unpacker *unpacker)
{
	if (!unpacker)
		return;
	if (unpacker->zstd)
		ZSTD_freeDStream(unpacker->zstd);
	else
		inflateEnd(&unpacker->gzip);
	free(unpacker);
}

/* Decompresses some bytes of one member.  Returns NULL, or the reason of a failure. */
static const char *step_gzip(struct unpacker *unpacker, struct unpack_buffers *buffers)
{
	z_stream *gzip = &unpacker->gzip;
	int rc;

	if (!unpacker->inside && inflateReset(gzip) != Z_OK)
		return "zlib failed to start";
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): inflate() only reads it */
	gzip->next_in = (z_const Bytef *)(uintptr_t)(buffers->in + buffers->in_done);
	gzip->avail_in = (uInt)(buffers->n_in - buffers->in_done);
	gzip->next_out = buffers->out + buffers->out_done;
	gzip->avail_out = (uInt)(buffers->n_out - buffers->out_done);
	rc = inflate(gzip, Z_NO_FLUSH);
	buffers->in_done = buffers->n_in - gzip->avail_in;
	buffers->out_done = buffers->n_out - gzip->avail_out;
	unpacker->inside = rc != Z_STREAM_END;
	if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
		return NULL;
	return gzip->msg ? gzip->msg : "no memory";
}

/* Decompresses some bytes of one frame.  libzstd refuses windows of more than 128 MiB. */
static const char *step_zstd(struct unpacker *unpacker, struct unpack_buffers *buffers)
{
	ZSTD_inBuffer in = { buffers->in, buffers->n_in, buffers->in_done };
	ZSTD_outBuffer out = { buffers->out, buffers->n_out, buffers->out_done };
	size_t rc = ZSTD_decompressStream(unpacker->zstd, &out, &in);

	buffers->in_done = in.pos;
	buffers->out_done = out.pos;
	unpacker->inside = rc != 0;
	return ZSTD_isError(rc) ? ZSTD_getErrorName(rc) : NULL;
}

/* Decompresses from in to out until one of them is used up.  *ended: whether the data is complete.
 * ERR_INPUT, with the name of the file, for data that is truncated, invalid, or followed by bytes
 * of another kind. */
static int unpacker_run(struct unpacker *unpacker, struct unpack_buffers *buffers, const char *name,
			bool *ended, struct err *err)
{
	*ended = false;
	while (buffers->out_done < buffers->n_out) {
		size_t in_before = buffers->in_done, out_before = buffers->out_done;
		const char *wrong;

		if (buffers->in_done == buffers->n_in && !unpacker->inside) {
			*ended = buffers->last;
			return 0;
		}
		wrong = unpacker->zstd ? step_zstd(unpacker, buffers)
				       : step_gzip(unpacker, buffers);
		if (wrong)
			return err_set(
				err, ERR_INPUT,
				"'%s' is damaged or has other data after its compressed data: %s",
				name, wrong);
		if (buffers->in_done != in_before || buffers->out_done != out_before)
			continue;
		if (!buffers->last)
			return 0;
		return err_set(err, ERR_INPUT,
			       "'%s' is truncated: its compressed data is incomplete", name);
	}
	return 0;
}

#define RAW_SIZE ((size_t)64 << 10)
#define POLL_MS	 200

static int open_input(struct stream *stream, const char *path, struct err *err)
{
	struct stat status;

	if (!strcmp(path, "-")) {
		stream->name = "standard input";
		stream->fd = STDIN_FILENO;
		if (isatty(STDIN_FILENO))
			return err_set(err, ERR_USAGE, "standard input is a terminal, not data");
		return 0;
	}
	/* A blocking open of a FIFO without a writer would hang; stream_wait() does not. */
	stream->fd = io_openat(stream->io, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (stream->fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	if (fstat(stream->fd, &status))
		return err_errno(err, "cannot open '%s'", path);
	stream->is_file = S_ISREG(status.st_mode);
	if (stream->is_file)
		return io_identity(stream->io, stream->fd, &stream->identity, path, err);
	if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
		return 0;
	return err_set(err, ERR_INPUT, "'%s' is neither a regular file nor a pipe", path);
}

/* Waits until a pipe can be read, and for a signal at the same time. */
static int stream_wait(const struct stream *stream, struct err *err)
{
	struct pollfd ready = { .fd = stream->fd, .events = POLLIN };

	do {
		if (progress_stopped(stream->stop, err))
			return -1;
	} while (poll(&ready, 1, POLL_MS) <= 0);
	return 0;
}

static int read_pipe(struct stream *stream, struct err *err)
{
	ssize_t got;

	do {
		if (stream_wait(stream, err))
			return -1;
		got = stream->io->read(stream->io, stream->fd, stream->raw, RAW_SIZE);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got < 0)
		return err_errno(err, "cannot read '%s'", stream->name);
	stream->raw_end = (size_t)got;
	stream->raw_ended = got == 0;
	return 0;
}

/* Reads more bytes of the file into raw, whose bytes are all used. */
static int read_raw(struct stream *stream, struct err *err)
{
	uint64_t left = stream->identity.size - stream->raw_at;
	size_t n = left < RAW_SIZE ? (size_t)left : RAW_SIZE;

	stream->raw_begin = stream->raw_end = 0;
	if (!stream->is_file)
		return read_pipe(stream, err);
	if (progress_stopped(stream->stop, err) ||
	    io_pread_full(&(struct file){ stream->io, stream->fd, stream->name }, stream->raw, n,
			  stream->raw_at, err))
		return -1;
	stream->raw_end = n;
	stream->raw_at += n;
	stream->raw_ended = stream->raw_at == stream->identity.size;
	return 0;
}

static int unpack(struct stream *stream, struct unpack_buffers *buffers, struct err *err)
{
	buffers->in = stream->raw + stream->raw_begin;
	buffers->n_in = stream->raw_end - stream->raw_begin;
	buffers->in_done = 0;
	buffers->last = stream->raw_ended;
	if (unpacker_run(stream->unpacker, buffers, stream->name, &stream->ended, err))
		return -1;
	stream->raw_begin += buffers->in_done;
	return 0;
}

int stream_fill(struct stream *stream, uint64_t n, struct err *err)
{
	unsigned char chunk[16 << 10];

	while (n && !stream->ended) {
		size_t part = n < sizeof chunk ? (size_t)n : sizeof chunk, got;

		if (stream->raw_begin == stream->raw_end && !stream->raw_ended &&
		    read_raw(stream, err))
			return -1;
		if (stream->unpacker) {
			struct unpack_buffers buffers = { .out = chunk, .n_out = part };

			if (unpack(stream, &buffers, err))
				return -1;
			got = buffers.out_done;
			buf_add(&stream->text, chunk, got);
		} else {
			size_t left = stream->raw_end - stream->raw_begin;

			got = n < left ? (size_t)n : left;
			buf_add(&stream->text, stream->raw + stream->raw_begin, got);
			stream->raw_begin += got;
			stream->ended = stream->raw_ended && stream->raw_begin == stream->raw_end;
		}
		n -= got;
	}
	return 0;
}

void stream_forget(struct stream *stream)
{
	size_t len = stream->text.len - stream->begin;

	memmove(stream->text.data, stream->text.data + stream->begin, len);
	stream->text.len = len;
	stream->offset += stream->begin;
	stream->begin = 0;
}

static int begin(struct stream *stream, struct err *err)
{
	static const char mark[] = "\xEF\xBB\xBF";
	const size_t n = sizeof mark - 1;

	stream->raw = xmalloc(RAW_SIZE);
	buf_puts(&stream->text, "");
	if (read_raw(stream, err) ||
	    unpacker_new(&stream->unpacker, stream->raw, stream->raw_end, err) ||
	    stream_fill(stream, n, err))
		return -1;
	if (stream->text.len == n && !memcmp(stream->text.data, mark, n))
		stream->begin = n;
	return 0;
}

int stream_open(struct stream *stream, const struct io *io, const char *path,
		const atomic_int *stop, struct err *err)
{
	*stream = (struct stream){ .io = io, .name = path, .stop = stop, .fd = -1 };
	if (open_input(stream, path, err) || begin(stream, err))
		return stream_close(stream, -1, err);
	return 0;
}

int stream_close(struct stream *stream, int rc, struct err *err)
{
	if (!rc && stream->is_file)
		rc = io_check_unchanged(&(struct file){ stream->io, stream->fd, stream->name },
					&stream->identity, err);
	if (stream->fd > STDIN_FILENO)
		stream->io->close(stream->io, stream->fd);
	unpacker_free(stream->unpacker);
	free(stream->raw);
	buf_release(&stream->text);
	return rc;
}
