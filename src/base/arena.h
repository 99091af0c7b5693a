/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for small metadata that is freed all at once: the names and shapes of the tensors of a
 * file or a plan.  A zeroed struct is an empty arena.  Growth never fails (mem.h).
 */
#ifndef FP8CONV_BASE_ARENA_H
#define FP8CONV_BASE_ARENA_H

#include <stddef.h>

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
