/* SPDX-License-Identifier: Apache-2.0
 *
 * Error values and the one place where hostile text is made safe to print.
 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void text_sanitize(char *text)
{
	unsigned char *p = (unsigned char *)text;

	for (; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			p[0] = p[1] = '?';
	}
}

static int err_vset(struct err *err, enum err_kind kind, const char *format, va_list args)
{
	err->kind = kind;
	vsnprintf(err->message, sizeof err->message, format, args);
	text_sanitize(err->message);
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

/* What is wrong with a path stays wrong; all else may pass. */
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
	size_t used;

	va_start(args, format);
	err_vset(err, errno_kind(number), format, args);
	va_end(args);
	used = strlen(err->message);
	snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(number));
	return -1;
}

int err_wrap(struct err *err, const char *format, ...)
{
	char inner[sizeof err->message];
	va_list args;
	size_t used;

	memcpy(inner, err->message, sizeof inner);
	va_start(args, format);
	err_vset(err, err->kind, format, args);
	va_end(args);
	used = strlen(err->message);
	snprintf(err->message + used, sizeof err->message - used, ": %s", inner);
	return -1;
}
