/* SPDX-License-Identifier: Apache-2.0 */
#include "report/card.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"

const char *const card_keys[N_CARD_KEYS] = {
	[CARD_BASE_MODEL] = "base_model",     [CARD_RELATION] = "base_model_relation",
	[CARD_LANGUAGE] = "language",	      [CARD_LICENSE] = "license",
	[CARD_LICENSE_NAME] = "license_name", [CARD_LICENSE_LINK] = "license_link",
	[CARD_PIPELINE_TAG] = "pipeline_tag", [CARD_LIBRARY_NAME] = "library_name",
};

/* A stretch of the text, or of one line. */
struct text_span {
	const char *at;
	size_t n;
};

static bool span_is(struct text_span span, const char *text)
{
	return span.n == strlen(text) && !memcmp(span.at, text, span.n);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct text_span trim(struct text_span span)
{
	while (span.n && is_blank(span.at[span.n - 1]))
		span.n--;
	while (span.n && is_blank(*span.at)) {
		span.at++;
		span.n--;
	}
	return span;
}

/* Cuts the next line, without its end, off the text. */
static struct text_span next_line(struct text_span *text)
{
	const char *end = memchr(text->at, '\n', text->n);
	struct text_span line = { text->at, end ? (size_t)(end - text->at) : text->n };

	text->at += line.n + (end != NULL);
	text->n -= line.n + (end != NULL);
	if (line.n && line.at[line.n - 1] == '\r')
		line.n--;
	return line;
}

/* --- values --- */

/* Is it valid UTF-8 without control characters, short, and not empty? */
static bool is_text(const char *text, size_t n)
{
	return n && n <= CARD_MAX_LENGTH && strlen(text) == n && text_control(text) == n &&
	       json_utf8_prefix((struct json_text){ text, n }) == n;
}

static void add_text(struct card_value *value, char *text, size_t n)
{
	if (!is_text(text, n) || value->n == CARD_MAX_VALUES) {
		free(text);
		return;
	}
	ARRAY_GROW(value->texts, value->n);
	value->texts[value->n++] = text;
}

/* Adds a quoted scalar.  Escapes of double quotes but \" and \\ are left to other readers.  Returns
 * the length of the scalar with its quotes; 0 where it does not end or has such an escape. */
static size_t add_quoted(struct card_value *value, struct text_span span)
{
	struct buf text = { 0 };
	const char quote = *span.at;

	buf_reserve(&text, span.n);
	for (size_t i = 1; i < span.n; i++) {
		bool doubled = quote == '\'' && span.at[i] == '\'' && i + 1 < span.n &&
			       span.at[i + 1] == '\'';
		bool escaped = quote == '"' && span.at[i] == '\\' && i + 1 < span.n &&
			       (span.at[i + 1] == '"' || span.at[i + 1] == '\\');

		if (span.at[i] == quote && !doubled) {
			add_text(value, text.data, text.len);
			return i + 1;
		}
		if (quote == '"' && span.at[i] == '\\' && !escaped)
			break;
		i += doubled || escaped;
		buf_putc(&text, span.at[i]);
	}
	buf_release(&text);
	return 0;
}

/* Returns the length of a plain scalar: up to the comment, if there is one, or in a list in
 * brackets up to a comma or the bracket. */
static size_t plain_length(struct text_span span, bool in_brackets)
{
	size_t n = 0;

	for (; n < span.n; n++)
		if ((span.at[n] == '#' && n && is_blank(span.at[n - 1])) ||
		    (in_brackets && (span.at[n] == ',' || span.at[n] == ']')))
			break;
	return n;
}

/* Adds a plain scalar, unless YAML could read it as something else than a text. */
static void add_plain(struct card_value *value, struct text_span span)
{
	span = trim(span);
	if (!span.n || strchr("&*!|>%@`{}[]\"'#?,", *span.at) || span_is(span, "null") ||
	    span_is(span, "~") || memmem(span.at, span.n, ": ", 2))
		return;
	add_text(value, xstrndup(span.at, span.n), span.n);
}

static void add_scalar(struct card_value *value, struct text_span span)
{
	span = trim(span);
	if (span.n && (*span.at == '"' || *span.at == '\''))
		add_quoted(value, span);
	else
		add_plain(value, (struct text_span){ span.at, plain_length(span, false) });
}

/* Adds the scalars of "[en, 'no']". */
static void add_bracketed(struct card_value *value, struct text_span span)
{
	for (span.at++, span.n--; span.n;) {
		size_t n;

		if (is_blank(*span.at) || *span.at == ',') {
			n = 1;
		} else if (*span.at == '"' || *span.at == '\'') {
			n = add_quoted(value, span);
		} else {
			n = plain_length(span, true);
			add_plain(value, (struct text_span){ span.at, n });
		}
		if (!n) /* the bracket, or a scalar that is not understood */
			return;
		span.at += n;
		span.n -= n;
	}
}

/* --- lines --- */

/* Returns the value of the key with which the line begins, or NULL; *rest becomes what follows the
 * colon. */
static struct card_value *find_key(struct card *card, struct text_span line, struct text_span *rest)
{
	for (int key = 0; key < N_CARD_KEYS; key++) {
		size_t n = strlen(card_keys[key]);

		if (line.n > n && !memcmp(line.at, card_keys[key], n) && line.at[n] == ':' &&
		    (line.n == n + 1 || is_blank(line.at[n + 1]))) {
			*rest = trim((struct text_span){ line.at + n + 1, line.n - n - 1 });
			return &card->values[key];
		}
	}
	return NULL;
}

/* Returns what follows the "- " of an item. */
static bool is_item(struct text_span line, struct text_span *rest)
{
	line = trim(line);
	if (line.n < 2 || line.at[0] != '-' || !is_blank(line.at[1]))
		return false;
	*rest = (struct text_span){ line.at + 1, line.n - 1 };
	return true;
}

/* Reads the lines between the marks.  The first value of a key counts. */
static void parse_lines(struct card *card, struct text_span text)
{
	struct card_value *value = NULL; /* of the last key, if items may follow */

	while (text.n) {
		struct text_span line = next_line(&text), rest;
		struct card_value *found = find_key(card, line, &rest);

		if (found) {
			value = found->n || (rest.n && *rest.at != '#') ? NULL : found;
			if (!found->n && rest.n && *rest.at == '[')
				add_bracketed(found, rest);
			else if (!found->n)
				add_scalar(found, rest);
		} else if (is_item(line, &rest)) {
			if (value)
				add_scalar(value, rest);
		} else if (trim(line).n && *line.at != '#') {
			value = NULL;
		}
	}
}

void card_parse(struct card *card, const char *text, size_t n)
{
	static const char mark[] = "\xEF\xBB\xBF"; /* byte order mark of UTF-8 */
	struct text_span rest = { text, n < CARD_LIMIT ? n : CARD_LIMIT }, matter;

	*card = (struct card){ 0 };
	if (rest.n >= 3 && !memcmp(rest.at, mark, 3)) {
		rest.at += 3;
		rest.n -= 3;
	}
	if (!span_is(trim(next_line(&rest)), "---"))
		return;
	matter = rest;
	while (rest.n) {
		struct text_span before = rest, line = next_line(&rest);

		if (line.n && line.at[0] != ' ' &&
		    (span_is(trim(line), "---") || span_is(trim(line), "..."))) {
			matter.n = (size_t)(before.at - matter.at);
			parse_lines(card, matter);
			return;
		}
	}
}

int card_read(struct card *card, const struct io *io, const char *directory, struct err *err)
{
	char *path = xasprintf("%s/" CARD_NAME, directory);
	struct file_identity identity;
	char *text = xmalloc(CARD_LIMIT);
	int fd, rc = -1;
	size_t n = 0;

	*card = (struct card){ 0 };
	if (io_open_regular(io, AT_FDCWD, path, &fd, &identity, err)) {
		rc = errno == ENOENT ? 0 : -1;
	} else {
		rc = io_read_full(&(struct file){ io, fd, path }, text, CARD_LIMIT, &n, err);
		io->close(io, fd);
		if (!rc)
			card_parse(card, text, n);
	}
	free(text);
	free(path);
	return rc;
}

const char *card_text(const struct card *card, enum card_key key)
{
	return card->values[key].n ? card->values[key].texts[0] : NULL;
}

bool card_is_empty(const struct card *card)
{
	for (int key = 0; key < N_CARD_KEYS; key++)
		if (card->values[key].n)
			return false;
	return true;
}

void card_release(struct card *card)
{
	for (int key = 0; key < N_CARD_KEYS; key++) {
		for (size_t i = 0; i < card->values[key].n; i++)
			free(card->values[key].texts[i]);
		free(card->values[key].texts);
	}
	*card = (struct card){ 0 };
}
