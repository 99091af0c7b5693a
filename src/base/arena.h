/* SPDX-License-Identifier: Apache-2.0
 *
 * Small metadata that goes all at once: names and shapes of a file's tensors, of a plan's.  A
 * zeroed struct is an empty arena.  Growth never fails (mem.h).
 */
#ifndef FP8CONV_BASE_ARENA_H
#define FP8CONV_BASE_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_block *blocks;
	char *free;    /* in the first of them */
	size_t n_free; /* bytes from there on */
};

/* Not zeroed, aligned as a uint64_t wants it; valid until arena_release(). */
void *arena_alloc(struct arena *arena, size_t size);

/* The n bytes of a text, and a NUL. */
char *arena_text(struct arena *arena, const char *text, size_t n);

/* The same of an allocated text, which is freed. */
char *arena_take(struct arena *arena, char *text);

void arena_release(struct arena *arena);

#endif
