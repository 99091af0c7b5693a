/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed in one chunk of a tensor, as bytes: which elements, and their new bytes.  These are
 * absolute, so that applying them twice is the same as once.  fp8conv-formats(7) has the layout.
 */
#ifndef FP8CONV_DELTA_CHUNK_H
#define FP8CONV_DELTA_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "num/dtype.h"

#define CHUNK_SIZE	((size_t)4 << 20) /* bytes of a tensor: all chunks but its last */
#define CHUNK_FRAME_MAX (CHUNK_SIZE + CHUNK_SIZE / 128) /* bytes, above ZSTD_compressBound() */

/* How a row says which elements changed.  1 to 3: gaps of so many bytes. */
#define CHUNK_WHOLE    0
#define CHUNK_GAPS_MAX 3
#define CHUNK_BITMAP   4

/* A row of the table: five numbers of 32 bits in the file. */
struct chunk_row {
	uint32_t tensor; /* of the new checkpoint, in the order of its files */
	uint32_t chunk;
	uint32_t kind;
	uint32_t count; /* elements that changed */
	uint32_t size;	/* bytes of its frame */
};
#define CHUNK_ROW_SIZE 20

/* The memory of a worker. */
struct chunk_coder {
	struct ZSTD_CCtx_s *compressor;
	struct ZSTD_DCtx_s *decompressor;
	uint8_t *bitmap; /* of elements that changed: a bit each, the lowest first */
	uint8_t *planes; /* the contents of a frame */
	uint8_t *frame;	 /* (CHUNK_FRAME_MAX) */
};

int chunk_coder_init(struct chunk_coder *coder, struct err *err);
void chunk_coder_release(struct chunk_coder *coder);

/* Returns the bytes of an element; types of less than a byte change byte by byte. */
static inline size_t chunk_element_size(enum dtype dtype)
{
	return dtype_bits(dtype) < 8 ? 1 : dtype_bits(dtype) / 8;
}

/* A chunk before and now. */
struct chunk_pair {
	const void *was, *is; /* was NULL: all is new */
	size_t n, element;    /* bytes of each; of an element */
};

/* Writes what differs to coder->frame, and sets kind, count and size of the row; count 0: nothing,
 * and no frame.  ERR_SYSTEM. */
int chunk_encode(struct chunk_coder *coder, const struct chunk_pair *pair, struct chunk_row *row,
		 struct err *err);

/* Changes the n bytes of a chunk as the row and its frame, in coder->frame, say.  ERR_INPUT where
 * they are damaged; the bytes may be changed in part then. */
int chunk_decode(struct chunk_coder *coder, const struct chunk_row *row, size_t element, void *data,
		 size_t n, struct err *err);

/* Returns whether a row can be one of a chunk of n bytes: kind, count and the size of the frame. */
int chunk_row_check(const struct chunk_row *row, size_t element, size_t n, struct err *err);

#endif
