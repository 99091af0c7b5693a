/* SPDX-License-Identifier: Apache-2.0
 *
 * Two kinds of memory.  Small metadata (names, tables) never fails: x*() end the program in one
 * place.  Tensor-sized memory may fail, with the size wanted in the message, and is counted by
 * whoever plans it.
 */
#ifndef FP8CONV_BASE_MEM_H
#define FP8CONV_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size); /* zeroed; the product is checked */
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t n);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* size bytes aligned to 4096, for tensor data; *p is freed with free().  what names its use in the
 * message. */
int buffer_alloc(void **p, uint64_t size, const char *what, struct err *err);

/* Such memory, and how much; zeroed is none. */
struct buffer {
	void *data;
	uint64_t size;
};

/* Makes it of size bytes at least, which do not keep what was there; where it fails, it is
 * empty. */
int buffer_ensure(struct buffer *buffer, uint64_t size, const char *what, struct err *err);
void buffer_release(struct buffer *buffer);

/* Grows an array of n elements so that one more fits: doubles at powers of two.  array_add(v, n) =
 * element; */
#define ARRAY_GROW(array, n)                                                        \
	do {                                                                        \
		if (((n) & ((n)-1)) == 0)                                           \
			(array) = xreallocarray((array), (n) ? 2 * (size_t)(n) : 1, \
						sizeof *(array));                   \
	} while (0)

#endif
