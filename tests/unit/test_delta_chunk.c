/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks come back as they were, whatever changed in them; and a frame that says anything else than
 * its row is refused, in each coding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/mem.h"
#include "delta/chunk.h"

static uint32_t random_state = 1;

static uint32_t random_number(void)
{
	random_state = random_state * 1664525 + 1013904223;
	return random_state >> 8;
}

/* Encodes what differs, and decodes it over the old bytes. */
static void round_trip(struct chunk_coder *coder, const uint8_t *was, const uint8_t *is, size_t n,
		       size_t element)
{
	struct chunk_row row = { 0 };
	struct err err = { 0 };
	uint8_t *data = xmalloc(n);
	uint32_t count = 0;

	for (size_t i = 0; i < n / element; i++)
		count += memcmp(was + i * element, is + i * element, element) != 0;
	memcpy(data, was, n);
	assert_int_equal(
		chunk_encode(coder, &(struct chunk_pair){ was, is, n, element }, &row, &err), 0);
	if (count) {
		assert_int_equal(row.count, row.kind == CHUNK_WHOLE ? n / element : count);
		for (int twice = 0; twice < 2; twice++)
			assert_int_equal(chunk_decode(coder, &row, element, data, n, &err), 0);
	} else {
		assert_int_equal(row.count, 0);
	}
	assert_memory_equal(data, is, n);
	assert_int_equal(
		chunk_encode(coder, &(struct chunk_pair){ NULL, is, n, element }, &row, &err), 0);
	memset(data, 0, n);
	assert_int_equal(chunk_decode(coder, &row, element, data, n, &err), 0);
	assert_memory_equal(data, is, n);
	free(data);
}

static void chunks_come_back(void **state)
{
	/* a change every so many elements */
	static const uint32_t every[] = { 1, 2, 3, 9, 50, 800, 40000, 1000000 };
	static const size_t counts[] = { 1, 2, 7, 64, 65, 4095, 300000 };
	struct chunk_coder coder;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(chunk_coder_init(&coder, &err), 0);
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
		for (size_t element = 1; element <= 8; element *= 2)
			for (size_t e = 0; e < sizeof every / sizeof *every; e++) {
				size_t n = counts[c] * element;
				uint8_t *was = xmalloc(n), *is = xmalloc(n);

				for (size_t i = 0; i < n; i++)
					was[i] = (uint8_t)random_number();
				memcpy(is, was, n);
				for (size_t i = 0; i < counts[c]; i++)
					if (random_number() % every[e] == 0)
						is[i * element + random_number() % element] ^=
							(uint8_t)random_number();
				round_trip(&coder, was, is, n, element);
				free(was);
				free(is);
			}
	chunk_coder_release(&coder);
}

/* The smallest before compression: gaps of one byte up to an eighth of the elements, and so on. */
static void kinds_are_the_smallest(void **state)
{
	static const struct {
		uint32_t step; /* elements between two changes, and one */
		size_t element;
		uint32_t kind;
	} rows[] = {
		{ 1, 1, CHUNK_WHOLE },
		{ 2, 1, CHUNK_BITMAP },
		{ 7, 1, CHUNK_BITMAP },
		{ 9, 1, 1 },
		{ 256, 1, 1 },
		{ 257, 1, 2 },
		{ 65536, 1, 2 },
		{ 65537, 1, 3 },
		{ 1, 8, CHUNK_WHOLE },
		{ 2, 8, CHUNK_BITMAP },
		{ 9, 4, 1 },
	};
	struct chunk_coder coder;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(chunk_coder_init(&coder, &err), 0);
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		size_t n = (size_t)262144 * rows[r].element;
		uint8_t *was = calloc(n, 1), *is = calloc(n, 1);
		struct chunk_row row = { 0 };

		for (size_t i = rows[r].step - 1; i < n / rows[r].element; i += rows[r].step)
			is[i * rows[r].element] = 1;
		assert_int_equal(chunk_encode(&coder,
					      &(struct chunk_pair){ was, is, n, rows[r].element },
					      &row, &err),
				 0);
		if (row.kind != rows[r].kind)
			fail_msg("row %zu: kind %u", r, row.kind);
		free(was);
		free(is);
	}
	chunk_coder_release(&coder);
}

/* --- frames as fp8conv-formats(7) describes them --- */

#define N 40 /* elements of the chunk, which are zero before */

/* A frame of these contents, and what is wrong with it. */
struct frame {
	const char *problem; /* NULL: nothing */
	uint32_t kind, count;
	size_t element, n;    /* bytes of an element; of the contents */
	uint8_t contents[96]; /* zeros follow */
	uint8_t places[4];    /* elements that get the values 1, 2, 3 ... in each of their bytes */
	size_t cut;	      /* bytes that are missing at the end of the frame */
};

/* clang-format off */
static const struct frame frames[] = {
	/* Gaps of one byte: elements 3, 4 and 39. */
	{ NULL, 1, 3, 1, 6, { 3, 0, 34, 1, 2, 3 }, { 3, 4, 39 }, 0 },
	{ NULL, 1, 3, 2, 9, { 3, 0, 34, 1, 2, 3, 1, 2, 3 }, { 3, 4, 39 }, 0 },
	{ "element 40 is past the last one (39)", 1, 3, 1, 6, { 3, 0, 35, 1, 2, 3 }, { 0 }, 0 },
	{ "element 255 is past the last one (39)", 1, 1, 1, 2, { 255, 1 }, { 0 }, 0 },
	{ "its frame has 5 bytes, but 6 are expected", 1, 3, 1, 5, { 3, 0, 34, 1, 2 }, { 0 }, 0 },
	{ "its frame has 7 bytes, but 6 are expected",
	  1, 3, 1, 7, { 3, 0, 34, 1, 2, 3 }, { 0 }, 0 },
	{ "its frame has 6 bytes, but 9 are expected",
	  1, 3, 2, 6, { 3, 0, 34, 1, 2, 3 }, { 0 }, 0 },
	{ "zstd: ", 1, 3, 1, 6, { 3, 0, 34, 1, 2, 3 }, { 0 }, 1 },

	/* Gaps of two and three bytes, the low bytes of all of them first. */
	{ NULL, 2, 3, 1, 9, { 3, 0, 34, 0, 0, 0, 1, 2, 3 }, { 3, 4, 39 }, 0 },
	{ NULL, 3, 2, 2, 10, { 3, 35, 0, 0, 0, 0, 1, 2, 1, 2 }, { 3, 39 }, 0 },
	{ "element 256 is past the last one (39)", 2, 1, 1, 3, { 0, 1, 1 }, { 0 }, 0 },
	{ "element 16711680 is past the last one (39)", 3, 1, 1, 4, { 0, 0, 255, 1 }, { 0 }, 0 },
	{ "element 40 is past the last one (39)",
	  2, 3, 1, 9, { 3, 0, 35, 0, 0, 0, 1, 2, 3 }, { 0 }, 0 },
	{ "its frame has 6 bytes, but 9 are expected",
	  2, 3, 1, 6, { 3, 0, 34, 1, 2, 3 }, { 0 }, 0 },
	{ "zstd: ", 2, 3, 1, 9, { 3, 0, 34, 0, 0, 0, 1, 2, 3 }, { 0 }, 3 },

	/* A bitmap of five bytes: elements 0, 9 and 39. */
	{ NULL, 4, 3, 1, 8, { 1, 2, 0, 0, 128, 1, 2, 3 }, { 0, 9, 39 }, 0 },
	{ NULL, 4, 3, 2, 11, { 1, 2, 0, 0, 128, 1, 2, 3, 1, 2, 3 }, { 0, 9, 39 }, 0 },
	{ "its bitmap does not mark 3 elements", 4, 3, 1, 8, { 1, 2, 0, 0, 0, 1, 2, 3 }, { 0 }, 0 },
	{ "its bitmap does not mark 3 elements",
	  4, 3, 1, 8, { 1, 2, 0, 0, 129, 1, 2, 3 }, { 0 }, 0 },
	{ "its bitmap does not mark 3 elements",
	  4, 3, 1, 8, { 1, 2, 0, 0, 193, 1, 2, 3 }, { 0 }, 0 },
	{ "its bitmap does not mark 3 elements", 4, 3, 1, 8, { 0 }, { 0 }, 0 },
	{ "its frame has 9 bytes, but 8 are expected",
	  4, 3, 1, 9, { 1, 2, 0, 0, 128, 1, 2, 3 }, { 0 }, 0 },
	{ "zstd: ", 4, 3, 1, 8, { 1, 2, 0, 0, 128, 1, 2, 3 }, { 0 }, 8 },

	/* All elements: only its size can be wrong. */
	{ NULL, 0, N, 1, N, { 1 }, { 0 }, 0 },
	{ NULL, 0, N, 2, 2 * N, { 1, [N] = 1 }, { 0 }, 0 },
	{ "its frame has 39 bytes, but 40 are expected", 0, N, 1, N - 1, { 1 }, { 0 }, 0 },
	{ "its frame has 41 bytes, but 40 are expected", 0, N, 1, N + 1, { 1 }, { 0 }, 0 },
	{ "zstd: ", 0, N, 1, N, { 1 }, { 0 }, 4 },

	/* What no row of the table may say. */
	{ "kind 5 is unknown", 5, 1, 1, 2, { 0, 1 }, { 0 }, 0 },
	{ "0 of 40 elements changed", 1, 0, 1, 0, { 0 }, { 0 }, 0 },
	{ "41 of 40 elements changed", 1, N + 1, 1, N, { 0 }, { 0 }, 0 },
	{ "39 of 40 elements changed", 0, N - 1, 1, N - 1, { 0 }, { 0 }, 0 },
	{ "kind 1 needs more bytes than the whole chunk", 1, 21, 1, 42, { 0 }, { 0 }, 0 },
	{ "kind 4 needs more bytes than the whole chunk", 4, 36, 1, 41, { 0 }, { 0 }, 0 },
};
/* clang-format on */

/* Decodes frame i over zeros: the values come to their places, or its problem is found. */
static void decode_one(struct chunk_coder *coder, size_t i)
{
	const struct frame *frame = &frames[i];
	struct chunk_row row = { .kind = frame->kind, .count = frame->count };
	size_t n = N * frame->element, n_changed = frame->kind ? frame->count : 1;
	uint8_t *data = calloc(n, 1), *expected = calloc(n, 1);
	struct err err = { 0 };
	int rc;

	row.size = (uint32_t)ZSTD_compress(coder->frame, CHUNK_FRAME_MAX, frame->contents, frame->n,
					   1) -
		   (uint32_t)frame->cut;
	rc = chunk_decode(coder, &row, frame->element, data, n, &err);
	if (frame->problem && (!rc || !strstr(err.message, frame->problem)))
		fail_msg("frame %zu: '%s' in place of '%s'", i, rc ? err.message : "no error",
			 frame->problem);
	for (size_t c = 0; !frame->problem && c < n_changed; c++)
		memset(expected + frame->places[c] * frame->element, (int)c + 1, frame->element);
	if (!frame->problem && (rc || memcmp(data, expected, n) != 0))
		fail_msg("frame %zu: %s", i, rc ? err.message : "other bytes");
	free(data);
	free(expected);
}

static void damaged_frames_are_refused(void **state)
{
	struct chunk_coder coder;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(chunk_coder_init(&coder, &err), 0);
	for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
		decode_one(&coder, i);
	chunk_coder_release(&coder);
}

/* Of a chunk of 13 elements, a byte of the bitmap has three bits too many. */
static void marks_past_the_end_are_refused(void **state)
{
	static const uint8_t contents[][4] = { { 0, 1 << 4, 7 },
					       { 0, 1 << 5, 7 },
					       { 1, 1 << 5, 7 } };
	struct chunk_coder coder;

	(void)state;
	assert_int_equal(chunk_coder_init(&coder, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < 3; i++) {
		struct chunk_row row = { .kind = CHUNK_BITMAP, .count = 1 };
		struct err err = { 0 };
		uint8_t data[16] = { 0 };

		row.size = (uint32_t)ZSTD_compress(coder.frame, CHUNK_FRAME_MAX, contents[i], 3, 1);
		assert_int_equal(chunk_decode(&coder, &row, 1, data, 13, &err), i ? -1 : 0);
		assert_int_equal(data[12], i ? 0 : 7);
		assert_int_equal(data[13], 0);
	}
	chunk_coder_release(&coder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_come_back),
		cmocka_unit_test(kinds_are_the_smallest),
		cmocka_unit_test(damaged_frames_are_refused),
		cmocka_unit_test(marks_past_the_end_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
