/* SPDX-License-Identifier: Apache-2.0
 *
 * Text files, and lines of JSON.
 */
#include <fcntl.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "dataset/steps.h"

#define BYTES_PER_TOKEN 64 /* more than any text needs on average: what is read at first */
#define MAX_LINE	(1u << 28)
#define CHUNK		(1u << 18)

/* An open file that is read from the start. */
struct text_file {
	int fd;
	struct file_identity identity;
	uint64_t at;	 /* of the file, read so far */
	struct buf text; /* what was read and is not used yet, from `begin` */
	size_t begin;
};

static int text_open(struct text_file *file, const struct dataset_reader *reader, struct err *err)
{
	*file = (struct text_file){ .fd = -1 };
	if (io_open_regular(reader->io, AT_FDCWD, reader->path, &file->fd, &file->identity, err))
		return -1;
	buf_puts(&file->text, "");
	return 0;
}

static int text_close(struct text_file *file, const struct dataset_reader *reader, int rc,
		      struct err *err)
{
	if (rc >= 0)
		rc = io_check_unchanged(file->fd, &file->identity, reader->path, err);
	reader->io->close(file->fd);
	buf_release(&file->text);
	return rc;
}

/* Appends up to n bytes more to file->text. */
static int text_read(struct text_file *file, const struct dataset_reader *reader, uint64_t n,
		     struct err *err)
{
	char chunk[4096];
	uint64_t left = file->identity.size - file->at;

	for (n = n < left ? n : left; n;) {
		size_t part = n < sizeof chunk ? (size_t)n : sizeof chunk;

		if (io_pread_full(reader->io, file->fd, chunk, part, file->at, reader->path, err))
			return -1;
		buf_add(&file->text, chunk, part);
		file->at += part;
		n -= part;
	}
	return 0;
}

/* The document as far as it was read: where the file goes on, up to the last line end. */
static int encode_prefix(const struct text_file *file, const struct dataset_reader *reader,
			 struct err *err)
{
	size_t len = file->text.len;
	const char *end =
		file->at < file->identity.size && len ? memrchr(file->text.data, '\n', len) : NULL;

	if (end)
		len = (size_t)(end - file->text.data) + 1;
	reader->data->ids.n = 0;
	return dataset_add_text(reader, file->text.data, len, err)
		       ? err_wrap(err, "'%s'", reader->path)
		       : 0;
}

int dataset_read_txt(const struct dataset_reader *reader, struct err *err)
{
	size_t wanted = dataset_wanted(reader);
	struct text_file file;
	uint64_t n;
	int rc = text_open(&file, reader, err);

	if (rc)
		return -1;
	if (__builtin_mul_overflow(wanted, BYTES_PER_TOKEN, &n) ||
	    __builtin_add_overflow(n, CHUNK, &n))
		n = UINT64_MAX;
	do {
		rc = text_read(&file, reader, n, err) || encode_prefix(&file, reader, err) ? -1 : 0;
		n = file.at; /* twice as much */
	} while (!rc && reader->data->ids.n < wanted && file.at < file.identity.size);
	return text_close(&file, reader, rc, err);
}

/* 1: the next line, without its end, is *line.  0: there is none. */
static int next_line(struct text_file *file, const struct dataset_reader *reader,
		     struct json_text *line, struct err *err)
{
	size_t seen = 0;

	for (;;) {
		const char *begin = file->text.data + file->begin;
		size_t len = file->text.len - file->begin;
		const char *end = len > seen ? memchr(begin + seen, '\n', len - seen) : NULL;

		if (end || file->at == file->identity.size) {
			*line = (struct json_text){ begin, end ? (size_t)(end - begin) : len };
			file->begin += line->len + (end != NULL);
			return end || len;
		}
		if (len > MAX_LINE)
			return err_set(err, ERR_INPUT,
				       "a line of '%s' is longer than the limit (%u bytes)",
				       reader->path, MAX_LINE);
		seen = len;
		memmove(file->text.data, begin, len);
		file->text.len = len;
		file->begin = 0;
		if (text_read(file, reader, CHUNK, err))
			return -1;
	}
}

/* A string, or a list of parts {"type": "text", "text": "..."}; nothing where it is null. */
static int add_content(struct buf *text, const json_t *content, struct err *err)
{
	if (json_is_string(content)) {
		buf_add(text, json_string_value(content), json_string_length(content));
		return 0;
	}
	for (size_t i = 0; i < json_array_size(content); i++) {
		const json_t *part = json_object_get(json_array_get(content, i), "text");

		if (!json_is_string(part))
			return err_set(err, ERR_INPUT, "a part of a message is no text");
		buf_add(text, json_string_value(part), json_string_length(part));
	}
	if (content && !json_is_null(content) && !json_is_array(content))
		return err_set(err, ERR_INPUT, "the content of a message is no text");
	return 0;
}

static int add_messages(const struct dataset_reader *reader, const json_t *messages,
			struct err *err)
{
	struct buf text = { 0 };
	int rc = 0;

	buf_puts(&text, "");
	if (!json_is_array(messages))
		rc = err_set(err, ERR_INPUT, "'messages' is not a list");
	for (size_t i = 0; !rc && i < json_array_size(messages); i++) {
		const json_t *message = json_array_get(messages, i);
		const json_t *role = json_object_get(message, "role");

		if (!json_is_string(role))
			rc = err_set(err, ERR_INPUT, "message %zu has no 'role'", i);
		else
			buf_printf(&text, "%s: ", json_string_value(role));
		if (!rc)
			rc = add_content(&text, json_object_get(message, "content"), err);
		buf_putc(&text, '\n');
	}
	if (!rc)
		rc = dataset_add_text(reader, text.data, text.len, err);
	buf_release(&text);
	return rc;
}

static int add_sequence(const struct dataset_reader *reader, const json_t *ids, struct err *err)
{
	size_t begin = reader->data->ids.n;

	if (!json_array_size(ids) || (begin && !reader->data->n))
		return err_set(err, ERR_INPUT,
			       begin && !reader->data->n
				       ? "it has 'input_ids' where lines before it have text"
				       : "'input_ids' is not a list with an id in it");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const json_t *id = json_array_get(ids, i);

		if (!json_is_integer(id))
			return err_set(err, ERR_INPUT, "element %zu of 'input_ids' is no integer",
				       i);
		if (dataset_add_id(reader, json_integer_value(id), err))
			return -1;
	}
	dataset_add_sequence(reader, begin);
	return 0;
}

static int add_object(const struct dataset_reader *reader, const json_t *object, struct err *err)
{
	const json_t *ids = json_object_get(object, "input_ids");
	const json_t *text = json_object_get(object, "text");
	const json_t *messages = json_object_get(object, "messages");

	if (ids)
		return add_sequence(reader, ids, err);
	if (!messages && !json_is_string(text))
		return err_set(err, ERR_INPUT, "it has no 'text', 'messages' or 'input_ids'");
	if (reader->data->n)
		return err_set(err, ERR_INPUT,
			       "it has text where lines before it have 'input_ids'");
	if (messages)
		return add_messages(reader, messages, err);
	return dataset_add_text(reader, json_string_value(text), json_string_length(text), err);
}

static bool is_blank(struct json_text line)
{
	size_t at = 0;

	return json_token(line, &at, &line) == 0;
}

static int add_line(const struct dataset_reader *reader, struct json_text line, struct err *err)
{
	json_t *object;
	int rc;

	if (is_blank(line))
		return 0;
	object = json_decode(line, err);
	rc = object ? add_object(reader, object, err) : -1;
	json_decref(object);
	return rc;
}

static bool has_enough(const struct dataset_reader *reader)
{
	const struct dataset *data = reader->data;

	return data->n ? data->n >= reader->max_sequences : data->ids.n >= dataset_wanted(reader);
}

int dataset_read_jsonl(const struct dataset_reader *reader, struct err *err)
{
	struct json_text line = { 0 };
	struct text_file file;
	size_t number = 0;
	int rc = text_open(&file, reader, err);

	if (rc)
		return -1;
	while (!has_enough(reader) && (rc = next_line(&file, reader, &line, err)) > 0) {
		number++;
		if (add_line(reader, line, err)) {
			rc = err_wrap(err, "'%s', line %zu", reader->path, number);
			break;
		}
	}
	return text_close(&file, reader, rc, err);
}
