/* SPDX-License-Identifier: Apache-2.0 */
#include "report/escape.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/json.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS	"0123456789"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Characters of three bytes that change what stands around them: separators of lines (U+2028 to
 * U+2029), directions of writing (U+202A to U+202E, U+2066 to U+2069), the mark of byte order
 * (U+FEFF) and those that YAML forbids (U+FFFE, U+FFFF). */
static const struct {
	char begin[3];
	unsigned char first, last; /* third byte */
} disturbing[] = {
	{ "\xE2\x80", 0xA8, 0xAE },
	{ "\xE2\x81", 0xA6, 0xA9 },
	{ "\xEF\xBB", 0xBF, 0xBF },
	{ "\xEF\xBF", 0xBE, 0xBF },
};

/* Puts U+FFFD in their places; the text is valid UTF-8. */
static void replace_disturbing(char *text)
{
	static const char replacement[3] = { '\xEF', '\xBF', '\xBD' };

	for (size_t i = 0; i < sizeof disturbing / sizeof *disturbing; i++)
		for (char *p = text; (p = strstr(p, disturbing[i].begin)); p += 3) {
			unsigned char third = (unsigned char)p[2];

			if (third >= disturbing[i].first && third <= disturbing[i].last)
				memcpy(p, replacement, sizeof replacement);
		}
}

char *escape_clean(const char *text, size_t max)
{
	struct buf out = { 0 };
	size_t n = strlen(text), head = n <= max ? n : max / 2;

	buf_reserve(&out, head);
	for (size_t at = 0; at < n;) {
		size_t end = at < head ? head : n, valid;

		valid = json_utf8_prefix((struct json_text){ text + at, end - at });
		buf_add(&out, text + at, valid);
		at += valid;
		if (at < end) {
			buf_puts(&out, REPLACEMENT);
			at++;
		}
		if (at == head && at < n) {
			buf_puts(&out, "\xE2\x80\xA6"); /* ... */
			at = n - max / 2;
		}
	}
	buf_add(&out, "", 0);
	replace_disturbing(out.data);
	text_sanitize(out.data);
	return out.data;
}

void escape_line(struct buf *out, const char *text)
{
	char *copy = escape_clean(text, ESCAPE_MAX_LINE);

	buf_puts(out, copy);
	free(copy);
}

/* Is the text a plain scalar, and no word that a reader of YAML 1.1 takes for a boolean or null?  A
 * number begins with a digit, a sign or a point. */
static bool is_plain_yaml(const char *text)
{
	static const char *const words[] = { "y",   "n",    "yes",   "no",  "on",
					     "off", "true", "false", "null" };

	if (!*text || !strchr(LETTERS, *text) || text[strspn(text, LETTERS DIGITS "._/-")])
		return false;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcasecmp(text, words[i]))
			return false;
	return true;
}

void escape_yaml(struct buf *out, const char *text)
{
	char *copy = escape_clean(text, ESCAPE_MAX);

	if (is_plain_yaml(copy)) {
		buf_puts(out, copy);
		free(copy);
		return;
	}
	buf_putc(out, '"');
	for (const char *p = copy; *p; p++) {
		if (*p == '"' || *p == '\\')
			buf_putc(out, '\\');
		buf_putc(out, *p);
	}
	buf_putc(out, '"');
	free(copy);
}

/* Adds every character as an entity that Markdown could take for markup. */
static void add_entities(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c >= 0x80 || strchr(LETTERS DIGITS " ./,", c))
			buf_putc(out, *p);
		else
			buf_printf(out, "&#%d;", c);
	}
}

void escape_markdown(struct buf *out, const char *text)
{
	char *copy = escape_clean(text, ESCAPE_MAX);

	/* These make no markup: no blank at either end, no sign that begins a list or a heading. */
	if (copy[strspn(copy, LETTERS DIGITS " ./,:()%=;-")] == '\0' && strchr(LETTERS, *copy))
		buf_puts(out, copy);
	else
		add_entities(out, copy);
	free(copy);
}

void escape_markdown_code(struct buf *out, const char *text)
{
	char *copy = escape_clean(text, ESCAPE_MAX);

	if (*copy && !strchr(" ", *copy) &&
	    copy[strspn(copy, LETTERS DIGITS " ./,:()%=;-_*+{}[]#@~^$!?'\"")] == '\0') {
		buf_putc(out, '`');
		buf_puts(out, copy);
		buf_putc(out, '`');
	} else {
		buf_puts(out, "<code>");
		add_entities(out, copy);
		buf_puts(out, "</code>");
	}
	free(copy);
}
