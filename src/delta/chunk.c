/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of a frame are planes: the first bytes of the gaps, then their second ones; then
 * likewise of the new elements.  Each plane is a block of the frame, with its own statistics.
 */
#include "delta/chunk.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/mem.h"

#define LEVEL 1 /* what changed is few or random: higher levels find nothing more */

int chunk_coder_init(struct chunk_coder *coder, struct err *err)
{
	*coder = (struct chunk_coder){ 0 };
	coder->compressor = ZSTD_createCCtx();
	coder->decompressor = ZSTD_createDCtx();
	coder->bitmap = calloc(CHUNK_SIZE / 8, 1);
	coder->planes = malloc(CHUNK_SIZE);
	coder->frame = malloc(CHUNK_FRAME_MAX);
	if (coder->compressor && coder->decompressor && coder->bitmap && coder->planes &&
	    coder->frame)
		return 0;
	return err_no_memory(err, "no memory to compress what changed");
}

void chunk_coder_release(struct chunk_coder *coder)
{
	ZSTD_freeCCtx(coder->compressor);
	ZSTD_freeDCtx(coder->decompressor);
	free(coder->bitmap);
	free(coder->planes);
	free(coder->frame);
	*coder = (struct chunk_coder){ 0 };
}

/* --- which elements --- */

/* Marks the elements of 8 bytes that differ: bits is their exclusive or.  Returns their number. */
static uint32_t mark_word(uint8_t *bitmap, size_t first, uint64_t bits, size_t element)
{
	uint64_t mask = element == 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * element)) - 1;
	uint32_t n = 0;

	while (bits) {
		size_t at = (size_t)__builtin_ctzll(bits) / 8 / element;
		size_t i = first + at;

		bitmap[i / 8] |= (uint8_t)(1U << (i % 8));
		bits &= ~(mask << (8 * element * at));
		n++;
	}
	return n;
}

/* Marks the elements that differ.  Returns their number. */
static uint32_t mark(uint8_t *bitmap, const uint8_t *was, const uint8_t *is, size_t n,
		     size_t element)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n; i += 8) {
		size_t size = n - i < 8 ? n - i : 8;
		uint64_t x = 0, y = 0;

		if (size == 8) {
			memcpy(&x, was + i, 8);
			memcpy(&y, is + i, 8);
		} else {
			memcpy(&x, was + i, size);
			memcpy(&y, is + i, size);
		}
		if (x != y)
			count += mark_word(bitmap, i / element, htole64(x ^ y), element);
	}
	return count;
}

/* A walk over the marked elements of a bitmap, in order. */
struct marked {
	const uint8_t *bitmap;
	size_t n_bytes; /* of the bitmap */
	size_t next;	/* byte of the word after this one */
	uint64_t word;
};

/* Sets *at to the next marked element; false: there is none. */
static bool marked_next(struct marked *marked, size_t *at)
{
	while (!marked->word) {
		size_t left = marked->n_bytes - marked->next;

		if (!left)
			return false;
		memcpy(&marked->word, marked->bitmap + marked->next, left < 8 ? left : 8);
		marked->word = le64toh(marked->word);
		marked->next += left < 8 ? left : 8;
		*at = 0;
	}
	*at = (marked->next - 1) / 8 * 64 + (size_t)__builtin_ctzll(marked->word);
	marked->word &= marked->word - 1;
	return true;
}

/* Returns the bytes that the widest gap needs. */
static uint32_t gap_bytes(struct marked marked)
{
	size_t at, next = 0, widest = 0;

	while (marked_next(&marked, &at)) {
		widest = at - next > widest ? at - next : widest;
		next = at + 1;
	}
	return widest < 1 << 8 ? 1 : widest < 1 << 16 ? 2 : 3;
}

/* Returns the bytes of the planes that say which elements changed. */
static size_t where_size(uint32_t kind, uint32_t count, size_t n_elements)
{
	if (kind == CHUNK_WHOLE)
		return 0;
	return kind == CHUNK_BITMAP ? (n_elements + 7) / 8 : (size_t)kind * count;
}

/* --- frames --- */

/* Ends a block, or the frame, after n more bytes. */
static int compress_plane(struct chunk_coder *coder, ZSTD_outBuffer *out, const void *plane,
			  size_t n, bool last)
{
	ZSTD_inBuffer in = { plane, n, 0 };
	size_t left;

	do {
		left = ZSTD_compressStream2(coder->compressor, out, &in,
					    last ? ZSTD_e_end : ZSTD_e_flush);
	} while (!ZSTD_isError(left) && left && out->pos < out->size);
	return left ? -1 : 0;
}

/* Compresses the planes: what says where is of `unit` bytes a plane, the elements of row->count. */
static int compress(struct chunk_coder *coder, size_t where, size_t unit, size_t element,
		    struct chunk_row *row, struct err *err)
{
	ZSTD_outBuffer out = { coder->frame, CHUNK_FRAME_MAX, 0 };
	size_t total = where + element * row->count, at = 0;
	int rc = 0;

	ZSTD_CCtx_reset(coder->compressor, ZSTD_reset_session_only);
	ZSTD_CCtx_setParameter(coder->compressor, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(coder->compressor, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setPledgedSrcSize(coder->compressor, total);
	while (!rc && at < total) {
		size_t n = at < where ? unit : row->count;

		rc = compress_plane(coder, &out, coder->planes + at, n, at + n == total);
		at += n;
	}
	if (rc)
		return err_no_memory(err, "no memory to compress what changed");
	row->size = (uint32_t)out.pos;
	return 0;
}

/* Lays out elements as planes of their bytes: all of them, or those that are marked. */
static void put_elements(uint8_t *planes, const uint8_t *data, size_t element, uint32_t count,
			 struct marked *marked)
{
	size_t at = 0;

	if (element == 1 && !marked) {
		memcpy(planes, data, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!marked)
			at = i;
		else if (!marked_next(marked, &at))
			break;
		for (size_t byte = 0; byte < element; byte++)
			planes[byte * count + i] = data[at * element + byte];
	}
}

static void put_gaps(uint8_t *planes, uint32_t kind, uint32_t count, struct marked marked)
{
	size_t at, next = 0;

	for (uint32_t i = 0; i < count && marked_next(&marked, &at); i++) {
		for (size_t byte = 0; byte < kind; byte++)
			planes[byte * count + i] = (uint8_t)((at - next) >> (8 * byte));
		next = at + 1;
	}
}

int chunk_encode(struct chunk_coder *coder, const struct chunk_pair *pair, struct chunk_row *row,
		 struct err *err)
{
	const void *was = pair->was, *is = pair->is;
	size_t n = pair->n, element = pair->element;
	size_t n_elements = n / element, n_bitmap = (n_elements + 7) / 8, where;
	struct marked marked = { coder->bitmap, n_bitmap, 0, 0 };
	int rc;

	row->kind = CHUNK_WHOLE;
	row->count = was ? mark(coder->bitmap, was, is, n, element) : (uint32_t)n_elements;
	if (!row->count)
		return 0;
	if (was && n_bitmap + row->count * element < n) {
		row->kind = gap_bytes(marked);
		if (row->kind * (size_t)row->count > n_bitmap)
			row->kind = CHUNK_BITMAP;
	}
	where = where_size(row->kind, row->count, n_elements);
	if (row->kind == CHUNK_BITMAP)
		memcpy(coder->planes, coder->bitmap, n_bitmap);
	else if (row->kind)
		put_gaps(coder->planes, row->kind, row->count, marked);
	else
		row->count = (uint32_t)n_elements;
	put_elements(coder->planes + where, is, element, row->count,
		     row->kind == CHUNK_WHOLE ? NULL : &marked);
	rc = compress(coder, where, row->kind == CHUNK_BITMAP ? n_bitmap : row->count, element, row,
		      err);
	if (was)
		memset(coder->bitmap, 0, n_bitmap);
	return rc;
}

int chunk_row_check(const struct chunk_row *row, size_t element, size_t n, struct err *err)
{
	size_t n_elements = n / element;

	if (row->kind > CHUNK_BITMAP)
		return err_set(err, ERR_INPUT, "kind %u is unknown", row->kind);
	if (!row->count || row->count > n_elements ||
	    (row->kind == CHUNK_WHOLE && row->count != n_elements))
		return err_set(err, ERR_INPUT, "%u of %zu elements changed", row->count,
			       n_elements);
	if (row->size > CHUNK_FRAME_MAX ||
	    where_size(row->kind, row->count, n_elements) + element * row->count > n)
		return err_set(err, ERR_INPUT, "kind %u needs more bytes than the whole chunk",
			       row->kind);
	return 0;
}

/* --- decoding --- */

static void get_element(const uint8_t *planes, uint32_t count, uint32_t i, uint8_t *place,
			size_t element)
{
	for (size_t byte = 0; byte < element; byte++)
		place[byte] = planes[byte * count + i];
}

static int decode_gaps(const struct chunk_row *row, const uint8_t *planes, size_t element,
		       uint8_t *data, size_t n_elements, struct err *err)
{
	const uint8_t *values = planes + (size_t)row->kind * row->count;
	size_t at = 0;

	for (uint32_t i = 0; i < row->count; i++, at++) {
		for (size_t byte = 0; byte < row->kind; byte++)
			at += (size_t)planes[byte * row->count + i] << (8 * byte);
		if (at >= n_elements)
			return err_set(err, ERR_INPUT, "element %zu is past the last one (%zu)", at,
				       n_elements - 1);
		get_element(values, row->count, i, data + at * element, element);
	}
	return 0;
}

static int decode_bitmap(const struct chunk_row *row, const uint8_t *planes, size_t element,
			 uint8_t *data, size_t n_elements, struct err *err)
{
	size_t n_bitmap = (n_elements + 7) / 8, at;
	struct marked marked = { planes, n_bitmap, 0, 0 };
	uint32_t i = 0;

	for (; i < row->count && marked_next(&marked, &at) && at < n_elements; i++)
		get_element(planes + n_bitmap, row->count, i, data + at * element, element);
	if (i != row->count || marked_next(&marked, &at))
		return err_set(err, ERR_INPUT, "its bitmap does not mark %u elements", row->count);
	return 0;
}

int chunk_decode(struct chunk_coder *coder, const struct chunk_row *row, size_t element, void *data,
		 size_t n, struct err *err)
{
	size_t n_elements = n / element, got, wanted;

	if (chunk_row_check(row, element, n, err))
		return -1;
	wanted = where_size(row->kind, row->count, n_elements) + element * row->count;
	got = ZSTD_decompressDCtx(coder->decompressor, coder->planes, CHUNK_SIZE, coder->frame,
				  row->size);
	if (ZSTD_isError(got))
		return err_set(err, ERR_INPUT, "zstd: %s", ZSTD_getErrorName(got));
	if (got != wanted)
		return err_set(err, ERR_INPUT, "its frame has %zu bytes, but %zu are expected", got,
			       wanted);
	if (row->kind == CHUNK_BITMAP)
		return decode_bitmap(row, coder->planes, element, data, n_elements, err);
	if (row->kind)
		return decode_gaps(row, coder->planes, element, data, n_elements, err);
	for (uint32_t i = 0; i < row->count; i++)
		get_element(coder->planes, row->count, i, (uint8_t *)data + i * element, element);
	return 0;
}
