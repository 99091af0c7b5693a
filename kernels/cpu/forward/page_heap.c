/* SPDX-License-Identifier: Apache-2.0
 *
 * Released mappings, of which a block takes one of its size, or a part of a larger one, or has the
 * largest one grown.
 */
#include "kernels/cpu/forward/page_heap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

void page_heap_init(struct page_heap *heap)
{
	*heap = (struct page_heap){ .page = (uint64_t)sysconf(_SC_PAGESIZE) };
	pthread_mutex_init(&heap->lock, NULL);
}

static void drop(struct page_heap *heap)
{
	struct page_block *last = &heap->blocks[--heap->n];

	munmap(last->memory, last->size);
	heap->kept -= last->size;
}

void page_heap_release(struct page_heap *heap)
{
	while (heap->n)
		drop(heap);
	free(heap->blocks);
	pthread_mutex_destroy(&heap->lock);
}

/* Returns the smallest block of at least size bytes, or else the largest one. */
static struct page_block *find(struct page_heap *heap, uint64_t size)
{
	struct page_block *best = heap->blocks;

	for (size_t i = 1; i < heap->n; i++) {
		uint64_t have = heap->blocks[i].size;

		if (best->size < size ? have > best->size : have >= size && have < best->size)
			best = &heap->blocks[i];
	}
	return best;
}

static void *take(struct page_heap *heap, uint64_t size)
{
	struct page_block *block = heap->n ? find(heap, size) : NULL;
	unsigned char *memory;

	if (block && block->size > size) {
		memory = block->memory;
		block->memory = memory + size;
		block->size -= size;
		heap->kept -= size;
		return memory;
	}
	if (!block)
		return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory = block->size == size ? block->memory
				     : mremap(block->memory, block->size, size, MREMAP_MAYMOVE);
	if (memory != MAP_FAILED) {
		heap->kept -= block->size;
		*block = heap->blocks[--heap->n];
	}
	return memory;
}

static uint64_t whole_pages(const struct page_heap *heap, uint64_t size)
{
	return (size + heap->page - 1) / heap->page * heap->page;
}

int page_heap_take(struct page_heap *heap, void **memory, uint64_t size, const char *what,
		   struct err *err)
{
	uint64_t n = whole_pages(heap, size);

	pthread_mutex_lock(&heap->lock);
	while ((*memory = take(heap, n)) == MAP_FAILED && heap->n)
		drop(heap);
	if (*memory == MAP_FAILED)
		*memory = NULL;
	else
		heap->in_use += n;
	heap->most = heap->in_use > heap->most ? heap->in_use : heap->most;
	while (heap->n && heap->in_use + heap->kept > heap->most)
		drop(heap);
	pthread_mutex_unlock(&heap->lock);
	return *memory ? 0
		       : err_set(err, ERR_SYSTEM,
				 "out of memory: cannot allocate %" PRIu64 " bytes for %s", size,
				 what);
}

void page_heap_give(struct page_heap *heap, void *memory, uint64_t size)
{
	uint64_t n = whole_pages(heap, size);

	if (!memory)
		return;
	pthread_mutex_lock(&heap->lock);
	ARRAY_GROW(heap->blocks, heap->n);
	heap->blocks[heap->n++] = (struct page_block){ memory, n };
	heap->in_use -= n;
	heap->kept += n;
	pthread_mutex_unlock(&heap->lock);
}
