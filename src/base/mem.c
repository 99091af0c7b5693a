/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The only function below cli/ that ends the program: without a few bytes of metadata nothing can
 * go on. */
static void out_of_memory(void)
{
	fputs("fp8conv: out of memory for metadata\n", stderr);
	_Exit(ERR_SYSTEM);
}

void *xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n ? n : 1, size ? size : 1);
	if (!p)
		out_of_memory();
	return p;
}

char *xstrndup(const char *text, size_t n)
{
	char *copy = strndup(text, n);

	if (!copy)
		out_of_memory();
	return copy;
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xvasprintf(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	return text;
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = xvasprintf(format, args);
	va_end(args);
	return text;
}

int buffer_alloc(void **p, uint64_t size, const char *what, struct err *err)
{
	*p = NULL;
	if (size > PTRDIFF_MAX || posix_memalign(p, 4096, size ? (size_t)size : 1)) {
		*p = NULL;
		return err_set(err, ERR_SYSTEM,
			       "out of memory: cannot allocate %" PRIu64 " bytes for %s", size,
			       what);
	}
	return 0;
}

int buffer_ensure(struct buffer *buffer, uint64_t size, const char *what, struct err *err)
{
	if (buffer->data && size <= buffer->size)
		return 0;
	buffer_release(buffer);
	if (buffer_alloc(&buffer->data, size, what, err))
		return -1;
	buffer->size = size;
	return 0;
}

void buffer_release(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){ 0 };
}

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
