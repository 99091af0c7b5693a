/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK_SIZE ((size_t)64 << 10) /* bytes; a larger allocation gets its own block */

struct arena_block {
	struct arena_block *next;
	uint64_t data[];
};

static void add_block(struct arena *arena, size_t size)
{
	struct arena_block *block = xmalloc(sizeof *block + size);

	block->next = arena->blocks;
	arena->blocks = block;
	arena->free = (char *)block->data;
	arena->n_free = size;
}

static void make_room(struct arena *arena, size_t size)
{
	if (size > arena->n_free)
		add_block(arena, size > BLOCK_SIZE ? size : BLOCK_SIZE);
}

void *arena_alloc(struct arena *arena, size_t size)
{
	char *p;

	size = ((size ? size : 1) + 7) & ~(size_t)7;
	make_room(arena, size);
	p = arena->free;
	arena->free += size;
	arena->n_free -= size;
	return p;
}

/* From the end of the block, where no byte is lost to alignment. */
char *arena_text(struct arena *arena, const char *text, size_t n)
{
	char *copy;

	make_room(arena, n + 1);
	arena->n_free -= n + 1;
	copy = arena->free + arena->n_free;
	memcpy(copy, text, n);
	copy[n] = '\0';
	return copy;
}

char *arena_take(struct arena *arena, char *text)
{
	char *copy = arena_text(arena, text, strlen(text));

	free(text);
	return copy;
}

void arena_release(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
	*arena = (struct arena){ 0 };
}
