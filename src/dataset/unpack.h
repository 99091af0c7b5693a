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

/* An input and an output buffer, and the number of bytes of each that are done. */
struct unpack_buffers {
	const unsigned char *in;
	size_t n_in, in_done;
	unsigned char *out;
	size_t n_out, out_done;
	bool last; /* in has the last bytes of the file */
};

/* Makes the unpacker for a file by its first n bytes; *unpacker becomes NULL where the file is not
 * compressed.  The caller frees it.  ERR_SYSTEM without memory. */
int unpacker_new(struct unpacker **unpacker, const unsigned char *bytes, size_t n, struct err *err);
void unpacker_free(struct unpacker *unpacker);

/* Decompresses from in to out until one of them is used up.  *ended: whether the data is complete.
 * ERR_INPUT, with the name of the file, for data that is truncated, invalid, or followed by bytes
 * of another kind. */
int unpacker_run(struct unpacker *unpacker, struct unpack_buffers *buffers, const char *name,
		 bool *ended, struct err *err);

#endif
