/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of JSON: on lines, or in an array.
 */
#include <string.h>

#include "base/json.h"
#include "dataset/steps.h"

#define MAX_OBJECT ((size_t)64 << 20) /* bytes */
#define CHUNK	   ((size_t)1 << 18)

/* Adds a string, or the parts of a list {"type": "text", "text": "..."}; null adds no text. */
static int add_content(struct buf *text, const json_t *content, struct err *err)
{
	if (json_is_string(content)) {
		buf_add(text, json_string_value(content), json_string_length(content));
		return 0;
	}
	for (size_t i = 0; i < json_array_size(content); i++) {
		const json_t *part = json_object_get(json_array_get(content, i), "text");

		if (!json_is_string(part))
			return err_set(err, ERR_INPUT, "message part is not text");
		buf_add(text, json_string_value(part), json_string_length(part));
	}
	if (content && !json_is_null(content) && !json_is_array(content))
		return err_set(err, ERR_INPUT, "message content is not text");
	return 0;
}

/* The keys of messages. */
static const struct chat {
	const char *key, *role, *content;
} chats[] = {
	{ "messages", "role", "content" },
	{ "conversations", "from", "value" },
};

/* Translates ShareGPT's words for roles. */
static const char *role_of(const char *role)
{
	static const char *const words[][2] = { { "human", "user" }, { "gpt", "assistant" } };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(role, words[i][0]))
			return words[i][1];
	return role;
}

static int add_messages(const struct dataset_reader *reader, const struct chat *chat,
			const json_t *messages, struct err *err)
{
	struct buf text = { 0 };
	int rc = 0;

	buf_puts(&text, "");
	if (!json_is_array(messages))
		rc = err_set(err, ERR_INPUT, "'%s' is not a list", chat->key);
	for (size_t i = 0; !rc && i < json_array_size(messages); i++) {
		const json_t *message = json_array_get(messages, i);
		const char *role = json_string_value(json_object_get(message, chat->role));

		if (!role) {
			rc = err_set(err, ERR_INPUT, "message %zu has no '%s'", i, chat->role);
			break;
		}
		buf_printf(&text, "%s: ", chat == chats ? role : role_of(role));
		rc = add_content(&text, json_object_get(message, chat->content), err);
		buf_putc(&text, '\n');
	}
	if (!rc)
		rc = dataset_add_text(reader, text.data, text.len, err);
	reader->data->n_chats++;
	buf_release(&text);
	return rc;
}

static int add_sequence(const struct dataset_reader *reader, const json_t *ids, struct err *err)
{
	size_t begin = reader->data->ids.n;

	if (dataset_begin_sequence(reader, err))
		return -1;
	if (!json_array_size(ids))
		return err_set(err, ERR_INPUT, "'input_ids' is not a list of at least one id");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const json_t *id = json_array_get(ids, i);

		if (!json_is_integer(id))
			return err_set(err, ERR_INPUT,
				       "element %zu of 'input_ids' is not an integer", i);
		if (dataset_add_id(reader, json_integer_value(id), err))
			return -1;
	}
	dataset_add_sequence(reader, begin);
	return 0;
}

static int add_completion(const struct dataset_reader *reader, const json_t *prompt,
			  const json_t *completion, struct err *err)
{
	struct buf text = { 0 };
	int rc;

	buf_add(&text, json_string_value(prompt), json_string_length(prompt));
	buf_add(&text, json_string_value(completion), json_string_length(completion));
	rc = dataset_add_text(reader, text.data, text.len, err);
	buf_release(&text);
	return rc;
}

static int add_document(const struct dataset_reader *reader, const json_t *object, struct err *err)
{
	const json_t *text = json_object_get(object, "text");
	const json_t *prompt = json_object_get(object, "prompt");
	const json_t *completion = json_object_get(object, "completion");

	for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
		const json_t *messages = json_object_get(object, chats[i].key);

		if (messages)
			return add_messages(reader, &chats[i], messages, err);
	}
	if (json_is_string(text))
		return dataset_add_text(reader, json_string_value(text), json_string_length(text),
					err);
	if (json_is_string(prompt) && json_is_string(completion))
		return add_completion(reader, prompt, completion, err);
	return err_set(err, ERR_INPUT,
		       "no 'text', 'messages', 'conversations', 'prompt' with 'completion', or "
		       "'input_ids'");
}

/* A tree needs up to a hundred bytes for each value of its text. */
static int check_values(struct json_text text, struct err *err)
{
	struct json_text token;
	size_t at = 0, n = 1;
	int kind;

	while ((kind = json_token(text, &at, &token)) > 0)
		n += kind == ',';
	if (n > MAX_SEQUENCE)
		return err_set(err, ERR_INPUT,
			       "%zu values, more than the limit of an object (%zu): divide it", n,
			       MAX_SEQUENCE);
	return 0;
}

static int add_object(const struct dataset_reader *reader, struct json_text text, struct err *err)
{
	json_t *object = check_values(text, err) ? NULL : json_decode_nul(text, err);
	const json_t *ids = json_object_get(object, "input_ids");
	int rc = -1;

	if (!object)
		return -1;
	if (ids)
		rc = add_sequence(reader, ids, err);
	else if (!dataset_begin_document(reader, err))
		rc = add_document(reader, object, err);
	json_decref(object);
	return rc;
}

/* Reads more of an object that is incomplete. */
static int read_more(struct stream *stream, struct err *err)
{
	if (stream->text.len - stream->begin > MAX_OBJECT)
		return err_set(err, ERR_INPUT,
			       "a line or object of '%s' is longer than the limit (%zu bytes)",
			       stream->name, MAX_OBJECT);
	stream_forget(stream);
	return stream_fill(stream, CHUNK, err);
}

/* Returns 1 with the next line, without its end, in *line; 0 at the end of the stream; -1. */
static int next_line(struct stream *stream, struct json_text *line, struct err *err)
{
	size_t seen = 0;

	for (;;) {
		const char *begin = stream->text.data + stream->begin;
		size_t len = stream->text.len - stream->begin;
		const char *end = len > seen ? memchr(begin + seen, '\n', len - seen) : NULL;

		if (end || stream->ended) {
			*line = (struct json_text){ begin, end ? (size_t)(end - begin) : len };
			stream->begin += line->len + (end != NULL);
			return end || len;
		}
		seen = len;
		if (read_more(stream, err))
			return -1;
	}
}

static bool is_blank(struct json_text line)
{
	size_t at = 0;

	return json_token(line, &at, &line) == 0;
}

int dataset_read_lines(const struct dataset_reader *reader, struct stream *stream, struct err *err)
{
	struct json_text line = { 0 };
	size_t number = 0;
	int rc = 0;

	while (!dataset_has_enough(reader) && (rc = next_line(stream, &line, err)) > 0) {
		number++;
		if (!is_blank(line) && add_object(reader, line, err))
			return err_wrap(err, "'%s', line %zu", stream->name, number);
	}
	return rc < 0 ? -1 : 0;
}

/* Returns the next byte that is not white space, and leaves it unread; 0 at the end; -1. */
static int next_char(struct stream *stream, struct err *err)
{
	for (;;) {
		for (; stream->begin < stream->text.len; stream->begin++)
			if (!strchr(" \t\r\n", stream->text.data[stream->begin]))
				return (unsigned char)stream->text.data[stream->begin];
		if (stream->ended)
			return 0;
		if (read_more(stream, err))
			return -1;
	}
}

/* The state of the search for the end of an element. */
struct element_scan {
	size_t at; /* from the stream's begin on */
	size_t depth;
	bool in_string, escaped;
};

/* Whether the element ends before this byte. */
static bool scan_byte(struct element_scan *scan, char c)
{
	if (scan->in_string) {
		scan->in_string = scan->escaped || c != '"';
		scan->escaped = !scan->escaped && c == '\\';
		return false;
	}
	if (scan->depth == 0 && (c == ',' || c == ']'))
		return true;
	scan->in_string = c == '"';
	scan->depth += c == '{' || c == '[';
	scan->depth -= scan->depth && (c == '}' || c == ']');
	return false;
}

static int next_element(struct stream *stream, struct json_text *element, struct err *err)
{
	struct element_scan scan = { 0 };

	for (;;) {
		const char *begin = stream->text.data + stream->begin;
		size_t len = stream->text.len - stream->begin;

		for (; scan.at < len; scan.at++)
			if (scan_byte(&scan, begin[scan.at])) {
				*element = (struct json_text){ begin, scan.at };
				stream->begin += scan.at;
				return 0;
			}
		if (stream->ended)
			return err_set(err, ERR_INPUT, "the array is truncated");
		if (read_more(stream, err))
			return -1;
	}
}

/* Reads element `number` of the array, with the comma or bracket before it.  Returns 1, 0 at the
 * end of the array, or -1. */
static int read_element(const struct dataset_reader *reader, struct stream *stream, size_t number,
			struct err *err)
{
	struct json_text element = { 0 };
	int c = next_char(stream, err);

	if (c < 0)
		return -1;
	if (c == ']' && number) {
		stream->begin++;
		c = next_char(stream, err);
		return c > 0 ? err_set(err, ERR_INPUT, "unexpected text after the array") : c;
	}
	if (c != (number ? ',' : '['))
		return err_set(err, ERR_INPUT, "expected a comma or the end of the array");
	stream->begin++;
	c = next_char(stream, err);
	if (c < 0)
		return -1;
	if (c == ']' && !number)
		return read_element(reader, stream, 1, err);
	if (next_element(stream, &element, err) || add_object(reader, element, err))
		return -1;
	return 1;
}

int dataset_read_elements(const struct dataset_reader *reader, struct stream *stream,
			  struct err *err)
{
	size_t number = 0;
	int rc = 1;

	for (; rc > 0 && !dataset_has_enough(reader); number += rc > 0)
		rc = read_element(reader, stream, number, err);
	if (rc < 0)
		return err_wrap(err, "'%s', element %zu", stream->name, number);
	return 0;
}
