/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as one document.
 */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "dataset/steps.h"

#define BYTES_PER_TOKEN 64 /* more than any text needs on average: what is read at first */
#define CHUNK		(1u << 18)
#define MAX_UNPACKED	((uint64_t)256 << 20) /* bytes of a text that is not a plain file */

/* The document as far as it was read: where the stream goes on, up to the last line end, or else
 * the last whole character. */
static int prefix_length(const struct stream *stream, size_t *len, struct err *err)
{
	const char *text = stream->text.data + stream->begin;
	size_t n = stream->text.len - stream->begin, utf8;
	const char *end = stream->ended || !n ? NULL : memrchr(text, '\n', n);

	*len = end ? (size_t)(end - text) + 1 : n;
	utf8 = json_utf8_prefix((struct json_text){ text, *len });
	if (!stream->ended && !end && *len - utf8 < 4)
		*len = utf8;
	if (utf8 < *len)
		return err_set(err, ERR_INPUT, "'%s' is not UTF-8: byte %zu", stream->name,
			       stream->begin + utf8);
	return 0;
}

static int encode_prefix(const struct dataset_reader *reader, const struct stream *stream,
			 struct err *err)
{
	size_t len;

	if (prefix_length(stream, &len, err))
		return -1;
	if (dataset_add_text(reader, stream->text.data + stream->begin, len, err))
		return err_wrap(err, "'%s'", stream->name);
	return 0;
}

/* Reads what should be enough, and twice as much where it is not. */
int dataset_read_text(const struct dataset_reader *reader, struct stream *stream, struct err *err)
{
	size_t before = reader->data->ids.n, wanted = dataset_wanted(reader);
	uint64_t max = stream->is_file && !stream->unpacker ? UINT64_MAX : MAX_UNPACKED, n;
	bool too_long;

	if (dataset_begin_document(reader, err))
		return err_wrap(err, "'%s'", stream->name);
	if (__builtin_mul_overflow(wanted - before, BYTES_PER_TOKEN, &n) ||
	    __builtin_add_overflow(n, CHUNK, &n))
		n = UINT64_MAX;
	do {
		reader->data->ids.n = before;
		if (stream_fill(stream, n < max ? n : max, err))
			return -1;
		too_long = !stream->ended && stream->text.len >= max;
		if (too_long && wanted == SIZE_MAX)
			break;
		if (encode_prefix(reader, stream, err))
			return -1;
		if (stream->ended || reader->data->ids.n >= wanted)
			return 0;
		n = stream->text.len;
	} while (!too_long);
	return err_set(err, ERR_INPUT,
		       "'%s' is longer than the limit for one text that is compressed or piped "
		       "(%" PRIu64 " bytes): use .jsonl",
		       stream->name, MAX_UNPACKED);
}
