/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/unpack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"

#define GZIP_WINDOW (15 + 16) /* of inflateInit2(): a gzip header, the largest window */

struct unpacker {
	z_stream gzip;
	ZSTD_DStream *zstd; /* NULL: gzip */
	bool inside;	    /* of a member or frame */
};

int unpacker_new(struct unpacker **unpacker, const unsigned char *bytes, size_t n, struct err *err)
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

void unpacker_free(struct unpacker *unpacker)
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

int unpacker_run(struct unpacker *unpacker, struct unpack_buffers *buffers, const char *name,
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
