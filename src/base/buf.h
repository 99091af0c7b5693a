/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte string.  A zeroed struct is an empty one.  data ends in a NUL that len does not count (data is NULL
 * until the first byte).  Growth never fails (mem.h).
 */
#ifndef FP8CONV_BASE_BUF_H
#define FP8CONV_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
};

void buf_add(struct buf *buf, const void *data, size_t n);
void buf_puts(struct buf *buf, const char *text);
void buf_putc(struct buf *buf, char c);
void buf_u64(struct buf *buf, uint64_t n); /* decimal digits; plans print millions of them */
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_release(struct buf *buf);

#endif
