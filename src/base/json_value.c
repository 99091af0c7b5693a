/* SPDX-License-Identifier: Apache-2.0
 *
 * Values.  jansson makes trees; it recurses, so it gets only text that json_balanced() has passed.
 * Strings and integers of headers come straight from the text, because a header may contain
 * millions of them.
 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* Decodes by jansson, after brackets and depth are checked. */
static json_t *decode(struct json_text text, size_t flags, struct err *err)
{
	json_error_t error;
	json_t *json;

	if (json_balanced(text, err))
		return NULL;
	if (memchr(text.data, '\0',
		   text.len)) { /* jansson takes NUL for the end of a number or word */
		err_set(err, ERR_INPUT, "bad JSON: it holds a NUL byte");
		return NULL;
	}
	json = json_loadb(text.data, text.len, JSON_DECODE_ANY | flags, &error);
	if (!json)
		err_set(err, ERR_INPUT, "bad JSON at byte %d: %s", error.position, error.text);
	return json;
}

/* Rejects the values that json_decode() and json_decode_nul() both reject. */
static json_t *decode_strict(struct json_text text, size_t flags, struct err *err)
{
	struct json_text token;
	size_t at = 0;
	int kind;

	if (!text.data)
		text.data = "";
	while ((kind = json_token(text, &at, &token)) > 0) {
		/* jansson reads it as 0 and loses the sign */
		if (kind == 'x' && token.len == 2 && !memcmp(token.data, "-0", 2)) {
			err_set(err, ERR_INPUT, "bad JSON at byte %zu: -0 is not an integer",
				at - 2);
			return NULL;
		}
	}
	return decode(text, JSON_REJECT_DUPLICATES | flags, err);
}

json_t *json_decode(struct json_text text, struct err *err)
{
	return decode_strict(text, 0, err);
}

json_t *json_decode_nul(struct json_text text, struct err *err)
{
	return decode_strict(text, JSON_ALLOW_NUL, err);
}

static bool is_python_word(struct json_text token)
{
	static const char *const words[] = { "NaN", "Infinity", "-Infinity" };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (token.len == strlen(words[i]) && !memcmp(token.data, words[i], token.len))
			return true;
	return false;
}

json_t *json_decode_python(struct json_text text, struct err *err)
{
	struct buf copy = { 0 };
	struct json_text token;
	size_t at = 0, done = 0;
	json_t *json;
	int kind;

	if (!text.data)
		text.data = "";
	while ((kind = json_token(text, &at, &token)) > 0) {
		if (kind != 'x' || !is_python_word(token))
			continue;
		buf_add(&copy, text.data + done, at - token.len - done);
		buf_puts(&copy, "null");
		done = at;
	}
	buf_add(&copy, text.data + done, text.len - done);
	json = decode((struct json_text){ copy.data, copy.len }, JSON_REJECT_DUPLICATES, err);
	buf_release(&copy);
	return json;
}

int json_check(struct json_text text, struct err *err)
{
	json_t *json = decode(text, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, err);

	if (!json)
		return -1;
	json_decref(json);
	return 0;
}

/* Are 32 bytes ASCII? */
static bool is_ascii(const unsigned char *p)
{
	uint64_t words[4];

	memcpy(words, p, sizeof words);
	return !((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u);
}

size_t json_utf8_prefix(struct json_text text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	size_t at = 0;

	while (text.len - at >= 32 && is_ascii(p + at))
		at += 32;
	while (at < text.len) {
		uint64_t eight;
		int n;

		if (text.len - at >= 8) {
			memcpy(&eight, p + at, 8);
			if (!(eight & 0x8080808080808080u)) {
				at += 8;
				continue;
			}
		}
		n = p[at] < 0x80 ? 1 : u8_mblen(p + at, text.len - at);
		if (n < 1)
			break;
		at += (size_t)n;
	}
	return at;
}

/* Decodes strings with escapes, by jansson. */
static bool escaped_string(struct json_text text, struct buf *out)
{
	json_t *json = json_loadb(text.data, text.len, JSON_DECODE_ANY, NULL);
	bool good = json_is_string(json);

	if (good)
		buf_add(out, json_string_value(json), json_string_length(json));
	json_decref(json);
	return good;
}

bool json_text_string(struct json_text text, struct buf *out)
{
	const char *quotes = text.data;
	struct json_text inner;
	size_t plain;

	out->len = 0;
	if (text.len < 2 || quotes[0] != '"' || quotes[text.len - 1] != '"')
		return false;
	inner = (struct json_text){ text.data + 1, text.len - 2 };
	plain = json_plain_prefix(inner);
	if (plain < inner.len)
		return inner.data[plain] == '\\' && escaped_string(text, out);
	if (json_utf8_prefix(inner) != inner.len)
		return false;
	buf_add(out, inner.data, inner.len);
	return true;
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/* Returns the byte after the integer at p; NULL if there is none, or if it does not fit. */
static const char *read_uint(const char *p, const char *end, uint64_t *value)
{
	const char *start = p;
	uint64_t n = 0;

	for (; p < end && p - start < 19 && *p >= '0' && *p <= '9'; p++) /* so many digits fit */
		n = 10 * n + (uint64_t)(*p - '0');
	for (*value = n; p < end && *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*p - '0'), value))
			return NULL;
	if (p == start || (*start == '0' && p - start > 1))
		return NULL;
	return skip_space(p, end);
}

bool json_text_uint(struct json_text text, uint64_t *value)
{
	const char *end = text.data + text.len;

	return text.len && read_uint(text.data, end, value) == end;
}

int64_t json_text_uints(struct json_text text, uint64_t *values, int max)
{
	const char *end, *p;
	uint64_t value;
	int64_t n = 0;

	if (!text.len)
		return -1;
	end = text.data + text.len;
	p = skip_space(text.data, end);
	if (p == end || *p != '[')
		return -1;
	p = skip_space(p + 1, end);
	while (p < end && (n || *p != ']')) {
		p = read_uint(p, end, &value);
		if (!p || p == end)
			return -1;
		if (n < max)
			values[n] = value;
		n++;
		if (*p == ']')
			break;
		if (*p != ',')
			return -1;
		p = skip_space(p + 1, end);
	}
	return p < end && skip_space(p + 1, end) == end ? n : -1;
}

bool json_text_is_null(struct json_text text)
{
	return text.len == 4 && !memcmp(text.data, "null", 4);
}

#define MAX_QUOTED 60 /* bytes of a value in a message */

const char *json_member_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

json_t *json_finite(double number)
{
	return isfinite(number) ? json_real(number) : json_null();
}

void json_put_value(struct buf *buf, const json_t *value)
{
	char *whole = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	size_t length = whole ? strlen(whole) : 0;

	if (length > MAX_QUOTED) {
		length = json_utf8_prefix((struct json_text){ whole, MAX_QUOTED });
		buf_add(buf, whole, length);
		buf_puts(buf, "...");
	} else {
		buf_puts(buf, whole ? whole : "?");
	}
	free(whole);
}
