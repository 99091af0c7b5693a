/* SPDX-License-Identifier: Apache-2.0
 *
 * Two kinds of memory.  Small metadata (names, tables) never fails: the x*() functions end the
 * program in one place.  Tensor-sized memory may fail, with the wanted size in the message; the
 * caller that plans it counts it.  An arena has small metadata that is freed all at once.
 */
#ifndef FP8CONV_BASE_MEM_H
#define FP8CONV_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* As the functions of the C library, but they end the program without memory.  The caller frees. */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size); /* zeroed; checks the product for overflow */
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t n);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* Allocates size bytes aligned to 4096, for tensor data; free() frees *p.  `what` names the use in
 * the message.  ERR_SYSTEM on failure. */
int buffer_alloc(void **p, uint64_t size, const char *what, struct err *err);

/* Such memory and its size; a zeroed struct has none. */
struct buffer {
	void *data;
	uint64_t size;
};

/* Makes the buffer at least size bytes large; a larger buffer does not keep its contents.  On
 * failure the buffer is empty. */
int buffer_ensure(struct buffer *buffer, uint64_t size, const char *what, struct err *err);
void buffer_release(struct buffer *buffer);

/* Makes room in an array of n elements for one more: doubles it where n is a power of two.  Use:
 * ARRAY_GROW(v, n); v[n++] = element; */
#define ARRAY_GROW(array, n)                                                        \
	do {                                                                        \
		if (((n) & ((n)-1)) == 0)                                           \
			(array) = xreallocarray((array), (n) ? 2 * (size_t)(n) : 1, \
						sizeof *(array));                   \
	} while (0)

/* The names and shapes of the tensors of a file or a plan.  A zeroed struct is empty.  Growth never
 * fails. */
struct arena {
	struct arena_block *blocks;
	char *free;    /* next free byte, in the first block */
	size_t n_free; /* bytes from `free` to the end of that block */
};

/* Returns size bytes, not zeroed, aligned for uint64_t, valid until arena_release(). */
void *arena_alloc(struct arena *arena, size_t size);

/* Returns a copy of the n bytes of a text, with a NUL added. */
char *arena_text(struct arena *arena, const char *text, size_t n);

/* The same for an allocated text, which it frees. */
char *arena_take(struct arena *arena, char *text);

void arena_release(struct arena *arena);

#endif
