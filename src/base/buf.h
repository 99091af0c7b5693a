/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte string.  A zeroed struct is empty.  data ends in a NUL that len does not count;
 * data is NULL until the first byte.  Growth never fails (mem.h).
 */
#ifndef FP8CONV_BASE_BUF_H
#define FP8CONV_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
};

/* Makes room for n more bytes. */
void buf_reserve(struct buf *buf, size_t n);

/* Appends n bytes.  Inline, because plans are written in pieces of a few bytes. */
static inline void buf_add(struct buf *buf, const void *data, size_t n)
{
	if (buf->cap - buf->len <= n)
		buf_reserve(buf, n);
	if (n)
		memcpy(buf->data + buf->len, data, n);
	buf->len += n;
	buf->data[buf->len] = '\0';
}

static inline void buf_puts(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

static inline void buf_putc(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

/* Appends n in decimal digits; plans print millions of numbers. */
void buf_u64(struct buf *buf, uint64_t n);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_release(struct buf *buf);

/* Writes the n bytes as 2 n lower-case hexadecimal digits and a NUL to text. */
void text_hex(char *text, const unsigned char *bytes, size_t n);

#endif
