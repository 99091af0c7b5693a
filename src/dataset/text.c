/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as one document.
 */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "dataset/steps.h"

#define BYTES_PER_TOKEN 64 /* of the first read; more than any text needs on average */
#define CHUNK		(1u << 18)
#define MAX_UNPACKED	((uint64_t)256 << 20) /* bytes of a text that is not a plain file */

/* Returns the length of the text that may be encoded: all of it at the end of the stream; else up
 * to the last line end, or without one to the last whole character. */
static size_t prefix_length(const struct stream *stream)
{
	const char *text = stream->text.data + stream->begin;
	size_t n = stream->text.len - stream->begin;
	const char *end = stream->ended || !n ? NULL : memrchr(text, '\n', n);
	size_t utf8;

	if (end)
		return (size_t)(end - text) + 1;
	utf8 = json_utf8_prefix((struct json_text){ text, n });
	return !stream->ended && n - utf8 < 4 ? utf8 : n;
}

/* Finds the first bytes that are not UTF-8, for a note. */
static void find_invalid(const struct dataset_reader *reader, const struct stream *stream,
			 size_t len)
{
	struct dataset *data = reader->data;
	size_t utf8 =
		json_utf8_prefix((struct json_text){ stream->text.data + stream->begin, len });

	if (utf8 == len || data->invalid_name)
		return;
	data->invalid_name = xstrdup(stream->name);
	data->invalid_byte = stream->begin + utf8;
}

static int encode_prefix(const struct dataset_reader *reader, const struct stream *stream,
			 struct err *err)
{
	size_t len = prefix_length(stream);

	find_invalid(reader, stream, len);
	if (dataset_add_text(reader, stream->text.data + stream->begin, len, err))
		return err_wrap(err, "'%s'", stream->name);
	return 0;
}

/* Reads enough by BYTES_PER_TOKEN, and doubles the amount until the tokens suffice. */
int dataset_read_text(const struct dataset_reader *reader, struct stream *stream, struct err *err)
{
	size_t before = reader->data->ids.n, needed = dataset_needed(reader);
	uint64_t max = stream->is_file && !stream->unpacker ? UINT64_MAX : MAX_UNPACKED, n;
	bool too_long;

	if (dataset_begin_document(reader, err))
		return err_wrap(err, "'%s'", stream->name);
	if (__builtin_mul_overflow(needed - before, BYTES_PER_TOKEN, &n) ||
	    __builtin_add_overflow(n, CHUNK, &n))
		n = UINT64_MAX;
	do {
		reader->data->ids.n = before;
		if (stream_fill(stream, n < max ? n : max, err))
			return -1;
		too_long = !stream->ended && stream->text.len >= max;
		if (too_long && needed == SIZE_MAX)
			break;
		if (encode_prefix(reader, stream, err))
			return -1;
		if (stream->ended || reader->data->ids.n >= needed)
			return 0;
		n = stream->text.len;
	} while (!too_long);
	return err_set(err, ERR_INPUT,
		       "'%s' exceeds the limit for compressed or piped text (%" PRIu64
		       " bytes): use .jsonl",
		       stream->name, MAX_UNPACKED);
}
