/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and the walk over members.  Nothing here recurses.
 */
#include "base/json.h"

#include <endian.h>
#include <string.h>

enum { START, FIRST, NEXT, DONE }; /* json_members.state: what the walk expects */

enum { OTHER, SPACE, SEPARATOR, BRACKET, QUOTE };

static const unsigned char class_of[256] = {
	[' '] = SPACE,	   ['\n'] = SPACE,    ['\t'] = SPACE,  ['\r'] = SPACE,
	[','] = SEPARATOR, [':'] = SEPARATOR, ['{'] = BRACKET, ['}'] = BRACKET,
	['['] = BRACKET,   [']'] = BRACKET,   ['"'] = QUOTE,
};

static unsigned char class_at(const char *p)
{
	return class_of[(unsigned char)*p];
}

#define EACH(byte) ((byte)*UINT64_C(0x0101010101010101))

/* Returns a word whose top bits mark the bytes that are control characters, quotes or backslashes;
 * marks above the lowest one may be false.  A subtraction sets the top bit of a byte below 0x80 if
 * the byte is less than the subtracted value. */
static uint64_t special(uint64_t bytes)
{
	return ((bytes - EACH(' ')) | ((bytes ^ EACH('"')) - EACH(1)) |
		((bytes ^ EACH('\\')) - EACH(1))) &
	       ~bytes & EACH(0x80);
}

/* Has one of 16 bytes such a mark? */
static bool is_special(const char *p)
{
	typedef unsigned char bytes __attribute__((vector_size(16)));
	bytes sixteen;
	uint64_t found[2];

	memcpy(&sixteen, p, sizeof sixteen);
	sixteen = (bytes)((sixteen < ' ') | (sixteen == '"') | (sixteen == '\\'));
	memcpy(found, &sixteen, sizeof found);
	return found[0] | found[1];
}

size_t json_plain_prefix(struct json_text text)
{
	const char *p = text.data;
	uint64_t eight, found;
	size_t at = 0;

	while (text.len - at >= 16 && !is_special(p + at))
		at += 16;
	for (; text.len - at >= sizeof eight; at += sizeof eight) {
		memcpy(&eight, p + at, sizeof eight);
		eight = le64toh(eight);
		found = special(eight);
		if (found)
			return at + (size_t)__builtin_ctzll(found) / 8;
	}
	while (at < text.len && (unsigned char)p[at] >= ' ' && p[at] != '"' && p[at] != '\\')
		at++;
	return at;
}

/* Returns the byte after the quote that ends the string at p; NULL if no quote does. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		p += json_plain_prefix((struct json_text){ p, (size_t)(end - p) });
		if (p == end)
			break;
		if (*p == '"')
			return p + 1;
		if (*p == '\\' && ++p == end)
			break;
	}
	return NULL;
}

int json_token(struct json_text text, size_t *at, struct json_text *token)
{
	const char *p = text.data + *at;
	const char *end = text.data + text.len;
	const char *start;
	int kind;

	while (p < end && class_at(p) == SPACE)
		p++;
	start = p;
	if (p == end) {
		kind = 0;
	} else if (class_at(p) == SEPARATOR || class_at(p) == BRACKET) {
		kind = (unsigned char)*p++;
	} else if (*p == '"') {
		p = string_end(p, end);
		kind = p ? '"' : -1;
		if (!p)
			p = end;
	} else {
		kind = 'x';
		while (p < end && class_at(p) == OTHER)
			p++;
	}
	*token = (struct json_text){ start, (size_t)(p - start) };
	*at = (size_t)(p - text.data);
	return kind;
}

static int bad_json(size_t at, const char *what, struct err *err)
{
	return err_set(err, ERR_INPUT, "bad JSON at byte %zu: %s", at, what);
}

/* Moves *at after the bracket that closes the one at text[*at].  Checks that strings end, brackets
 * match and the nesting stays within the limit, with `depth` levels already open.  This is the only
 * loop over every byte of a header. */
static int skip_container(struct json_text text, size_t base, size_t *at, int depth,
			  struct err *err)
{
	const char *p = text.data + *at, *end = text.data + text.len;
	char open[JSON_MAX_DEPTH];
	int n = 0;

	do {
		const char *start;

		while (p < end && class_at(p) < BRACKET)
			p++;
		if (p == end)
			return bad_json(base + text.len, "unexpected end", err);
		start = p;
		switch (*p++) {
		case '"':
			p = string_end(start, end);
			if (!p)
				return bad_json(base + (size_t)(start - text.data),
						"unterminated string", err);
			break;
		case '{':
		case '[':
			if (depth + n >= JSON_MAX_DEPTH)
				return err_set(err, ERR_INPUT,
					       "bad JSON at byte %zu: nested deeper than %d levels",
					       base + (size_t)(start - text.data), JSON_MAX_DEPTH);
			open[n++] = *start;
			break;
		case '}':
		case ']':
			if (n == 0 || open[--n] != (*start == '}' ? '{' : '['))
				return bad_json(base + (size_t)(start - text.data),
						"mismatched brackets", err);
			break;
		default:
			break;
		}
	} while (n);
	*at = (size_t)(p - text.data);
	return 0;
}

/* Moves *at after the value at text[*at], with `depth` levels open around it. */
static int skip_value(struct json_text text, size_t base, size_t *at, int depth,
		      struct json_text *value, struct err *err)
{
	struct json_text token;
	int kind = json_token(text, at, &token);
	size_t begin = (size_t)(token.data - text.data);

	if (kind == '{' || kind == '[') {
		*at = begin;
		if (skip_container(text, base, at, depth, err))
			return -1;
	} else if (kind != '"' && kind != 'x') {
		return bad_json(base + begin,
				kind < 0 ? "unterminated string"
				: kind	 ? "expected a value"
					 : "unexpected end",
				err);
	}
	*value = (struct json_text){ token.data, *at - begin };
	return 0;
}

static int expect_end(struct json_text text, size_t base, size_t at, struct err *err)
{
	struct json_text token;

	if (json_token(text, &at, &token))
		return bad_json(base + (size_t)(token.data - text.data), "expected the end", err);
	return 0;
}

int json_balanced(struct json_text text, struct err *err)
{
	struct json_text value;
	size_t at = 0;

	if (!text.data)
		text.data = "";
	if (skip_value(text, 0, &at, 0, &value, err))
		return -1;
	return expect_end(text, 0, at, err);
}

/* Reads a key and its value; kind and token are the key's. */
static int read_member(struct json_members *walk, int kind, struct json_text key,
		       struct json_member *member, struct err *err)
{
	struct json_text token;

	member->begin = (size_t)(key.data - walk->text.data);
	if (kind != '"')
		return bad_json(walk->base + member->begin, "expected a key in quotes", err);
	if (!json_text_string(key, &walk->key))
		return bad_json(walk->base + member->begin,
				"the key has a bad escape, a control character, a NUL or bad UTF-8",
				err);
	member->key = walk->key.data;
	member->key_len = walk->key.len;
	if (json_token(walk->text, &walk->at, &token) != ':')
		return bad_json(walk->base + (size_t)(token.data - walk->text.data), "expected ':'",
				err);
	return skip_value(walk->text, walk->base, &walk->at, 1, &member->value, err);
}

int json_members_next(struct json_members *walk, struct json_member *member, struct err *err)
{
	struct json_text token;
	int kind;

	if (walk->state == DONE)
		return 0;
	if (!walk->text.data)
		walk->text.data = "";
	kind = json_token(walk->text, &walk->at, &token);
	if (walk->state == START) {
		if (kind != '{')
			return bad_json(walk->base + (size_t)(token.data - walk->text.data),
					"expected '{'", err);
		kind = json_token(walk->text, &walk->at, &token);
		walk->state = FIRST;
	}
	if (kind == '}') {
		walk->state = DONE;
		return expect_end(walk->text, walk->base, walk->at, err);
	}
	if (walk->state == NEXT) {
		if (kind != ',')
			return bad_json(walk->base + (size_t)(token.data - walk->text.data),
					"expected ',' or '}'", err);
		kind = json_token(walk->text, &walk->at, &token);
	}
	walk->state = NEXT;
	return read_member(walk, kind, token, member, err) ? -1 : 1;
}

void json_members_begin(struct json_members *walk, struct json_text text, size_t base)
{
	*walk = (struct json_members){ .text = text, .base = base, .key = walk->key };
}

void json_members_release(struct json_members *walk)
{
	buf_release(&walk->key);
}

void config_add_json_string(struct buf *buf, const char *text, size_t n)
{
	static const char escapes[32] = {
		['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
	};
	const char *end = text + n;

	buf_putc(buf, '"');
	for (;; text++) {
		unsigned char c;

		n = json_plain_prefix((struct json_text){ text, (size_t)(end - text) });
		buf_add(buf, text, n);
		text += n;
		if (text == end)
			break;
		c = (unsigned char)*text;
		if (c >= 0x20)
			buf_printf(buf, "\\%c", c);
		else if (escapes[c])
			buf_printf(buf, "\\%c", escapes[c]);
		else
			buf_printf(buf, "\\u%04x", c);
	}
	buf_putc(buf, '"');
}
