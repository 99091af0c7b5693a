/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void buf_reserve(struct buf *buf, size_t n)
{
	size_t cap = buf->cap ? buf->cap : 64;

	while (cap - buf->len <= n)
		cap *= 2;
	if (cap != buf->cap) {
		buf->data = xreallocarray(buf->data, cap, 1);
		buf->cap = cap;
	}
}

void buf_add(struct buf *buf, const void *data, size_t n)
{
	buf_reserve(buf, n);
	if (n)
		memcpy(buf->data + buf->len, data, n);
	buf->len += n;
	buf->data[buf->len] = '\0';
}

void buf_puts(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

void buf_putc(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args, again;
	int n;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n >= 0) {
		buf_reserve(buf, (size_t)n + 1);
		vsnprintf(buf->data + buf->len, (size_t)n + 1, format, again);
		buf->len += (size_t)n;
	}
	va_end(again);
}

void buf_release(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ 0 };
}
