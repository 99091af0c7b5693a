/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void buf_reserve(struct buf *buf, size_t n)
{
	size_t cap = buf->cap ? buf->cap : 64;

	if (buf->cap - buf->len > n)
		return;
	while (cap - buf->len <= n)
		cap *= 2;
	buf->data = xreallocarray(buf->data, cap, 1);
	buf->cap = cap;
}

static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334"
			    "3536373839404142434445464748"
			    "4950515253545556575859606162636465666768697071727374757677787980818283"
			    "848586878889909192939495969798"
			    "99";

void buf_u64(struct buf *buf, uint64_t n)
{
	char digits[20], *end = digits + sizeof digits, *p = end;

	while (n >= 100) {
		memcpy(p -= 2, pairs + n % 100 * 2, 2);
		n /= 100;
	}
	*--p = (char)('0' + n % 10);
	if (n >= 10)
		*--p = (char)('0' + n / 10);
	buf_add(buf, p, (size_t)(end - p));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args, again;
	int n;

	va_start(args, format);
	va_copy(again, args);
	buf_reserve(buf, 1);
	n = vsnprintf(buf->data + buf->len, buf->cap - buf->len, format, args);
	va_end(args);
	if (n > 0 && (size_t)n >= buf->cap - buf->len) { /* it did not fit: print again */
		buf_reserve(buf, (size_t)n);
		vsnprintf(buf->data + buf->len, (size_t)n + 1, format, again);
	}
	if (n > 0)
		buf->len += (size_t)n;
	buf->data[buf->len] = '\0';
	va_end(again);
}

void buf_release(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ 0 };
}

void text_hex(char *text, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = '\0';
}
