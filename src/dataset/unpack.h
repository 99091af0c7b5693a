/* SPDX-License-Identifier: Apache-2.0
 *
 * Decompression of gzip (zlib) and zstd (libzstd), a buffer at a time.
 */
#ifndef FP8CONV_DATASET_UNPACK_H
#define FP8CONV_DATASET_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct unpacker;

/* Two buffers, and how much of each is done. */
struct unpack_buffers {
	const unsigned char *in;
	size_t n_in, in_done;
	unsigned char *out;
	size_t n_out, out_done;
	bool last; /* nothing follows in */
};

/* By the first n bytes of a file; *unpacker NULL: they are not compressed.  ERR_SYSTEM: no
 * memory. */
int unpacker_new(struct unpacker **unpacker, const unsigned char *bytes, size_t n, struct err *err);
void unpacker_free(struct unpacker *unpacker);

/* Fills out as far as in goes.  *ended: nothing follows.  ERR_INPUT, naming the file: truncated,
 * damaged, or followed by something else. */
int unpacker_run(struct unpacker *unpacker, struct unpack_buffers *buffers, const char *name,
		 bool *ended, struct err *err);

#endif
