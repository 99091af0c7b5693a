/* SPDX-License-Identifier: Apache-2.0
 *
 * Error values, and the one place that makes hostile text safe to print.
 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

size_t text_control(const char *text)
{
	static const bool looked_at[256] = { [0 ... 0x1f] = true, [0x7f] = true, [0xc2] = true };
	const unsigned char *p = (const unsigned char *)text;

	while (!looked_at[*p] || (*p == 0xc2 && (p[1] < 0x80 || p[1] >= 0xa0)))
		p++;
	return (size_t)((const char *)p - text);
}

/* Returns the bytes of a character that a terminal might obey, or that changes how it shows what
 * follows: marks of direction (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), separators of
 * lines (U+2028, U+2029).  0: it is none, or the end. */
static size_t unsafe_length(const unsigned char *p)
{
	if (*p == 0xc2)
		return p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
	if (*p != 0xe2)
		return *p && (*p < 0x20 || *p == 0x7f);
	if (p[1] == 0x80)
		return p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae) ? 3 : 0;
	return p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9 ? 3 : 0;
}

void text_sanitize(char *text)
{
	static const bool looked_at[256] = {
		[0 ... 0x1f] = true, [0x7f] = true, [0xc2] = true, [0xe2] = true
	};

	for (;; text++) {
		size_t n;

		while (!looked_at[(unsigned char)*text])
			text++;
		if (!*text)
			return;
		n = unsafe_length((const unsigned char *)text);
		memset(text, '?', n);
		text += n ? n - 1 : 0;
	}
}

/* Cuts the middle out of a text that is too long (names may have megabytes): the reason and the
 * numbers are at its end. */
static void set_message(struct err *err, const char *text)
{
	static const char gap[] = "...";
	size_t n = strlen(text), head = sizeof err->message / 2 - sizeof gap;
	size_t tail = sizeof err->message / 2;

	if (n < sizeof err->message) {
		memcpy(err->message, text, n + 1);
	} else {
		/* no cut inside a UTF-8 character */
		while (head && (text[head] & 0xC0) == 0x80)
			head--;
		while (tail && (text[n - tail] & 0xC0) == 0x80)
			tail--;
		memcpy(err->message, text, head);
		memcpy(err->message + head, gap, sizeof gap - 1);
		memcpy(err->message + head + sizeof gap - 1, text + n - tail, tail + 1);
	}
	text_sanitize(err->message);
}

static char *format_text(const char *format, va_list args)
{
	char *text;

	return vasprintf(&text, format, args) < 0 ? xstrdup(format) : text;
}

static int err_vset(struct err *err, enum err_kind kind, const char *format, va_list args)
{
	char *text = format_text(format, args);

	err->kind = kind;
	err->no_memory = false;
	err->follows = false;
	set_message(err, text);
	free(text);
	return -1;
}

int err_set(struct err *err, enum err_kind kind, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	err_vset(err, kind, format, args);
	va_end(args);
	return -1;
}

int err_no_memory(struct err *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	err_vset(err, ERR_SYSTEM, format, args);
	va_end(args);
	err->no_memory = true;
	return -1;
}

/* A wrong path stays wrong; any other failure may pass. */
static enum err_kind errno_kind(int number)
{
	switch (number) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return ERR_INPUT;
	default:
		return ERR_SYSTEM;
	}
}

int err_errno(struct err *err, const char *format, ...)
{
	int number = errno;
	va_list args;
	char *text;

	va_start(args, format);
	text = format_text(format, args);
	va_end(args);
	err_set(err, errno_kind(number), "%s: %s", text, strerror(number));
	free(text);
	return -1;
}

int err_advise(struct err *err, const char *advice)
{
	char *said;

	if (err->kind != ERR_INPUT)
		return -1;
	said = xstrdup(err->message);
	err_set(err, ERR_INPUT, "%s: %s", said, advice);
	free(said);
	return -1;
}

int err_wrap(struct err *err, const char *format, ...)
{
	bool no_memory = err->no_memory, follows = err->follows;
	va_list args;
	char *text;

	if (err->kind == ERR_INTERRUPTED)
		return -1;
	va_start(args, format);
	text = format_text(format, args);
	va_end(args);
	err_set(err, err->kind, "%s: %s", text, err->message);
	err->no_memory = no_memory;
	err->follows = follows;
	free(text);
	return -1;
}
