/* SPDX-License-Identifier: Apache-2.0
 *
 * First fit by address in one range of reserved addresses: the blocks of a layer take the
 * places of the layer before it.
 */
#include "kernels/cpu/forward/page_heap.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

#define NONE UINT64_MAX

void page_heap_init(struct page_heap *heap)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	/* Gaps take addresses, not memory. */
	uint64_t reserved = 2 * page * (uint64_t)sysconf(_SC_PHYS_PAGES);
	void *base = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*heap = (struct page_heap){ .base = base == MAP_FAILED ? NULL : base,
				    .reserved = reserved,
				    .page = page };
	pthread_mutex_init(&heap->lock, NULL);
}

void page_heap_release(struct page_heap *heap)
{
	if (heap->base)
		munmap(heap->base, heap->reserved);
	free(heap->gaps);
	pthread_mutex_destroy(&heap->lock);
}

static void gap_remove(struct page_heap *heap, size_t i)
{
	memmove(heap->gaps + i, heap->gaps + i + 1, (--heap->n_gaps - i) * sizeof *heap->gaps);
}

static void gap_insert(struct page_heap *heap, size_t i, struct page_gap gap)
{
	ARRAY_GROW(heap->gaps, heap->n_gaps);
	memmove(heap->gaps + i + 1, heap->gaps + i, (heap->n_gaps++ - i) * sizeof *heap->gaps);
	heap->gaps[i] = gap;
}

/* Takes size bytes from the first gap that has them.  Returns where, NONE: no gap. */
static uint64_t take_gap(struct page_heap *heap, uint64_t size)
{
	for (size_t i = 0; i < heap->n_gaps; i++) {
		struct page_gap *gap = &heap->gaps[i];
		uint64_t begin = gap->begin;

		if (gap->end - begin < size)
			continue;
		gap->begin += size;
		if (gap->kept > gap->end - gap->begin)
			gap->kept = gap->end - gap->begin;
		if (gap->begin == gap->end)
			gap_remove(heap, i);
		return begin;
	}
	return NONE;
}

static uint64_t kept(const struct page_heap *heap)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < heap->n_gaps; i++)
		sum += heap->gaps[i].kept;
	return sum;
}

static void drop_pages(struct page_heap *heap)
{
	for (size_t i = 0; i < heap->n_gaps; i++) {
		struct page_gap *gap = &heap->gaps[i];

		madvise(heap->base + gap->begin, gap->end - gap->begin, MADV_DONTNEED);
		gap->kept = 0;
	}
}

/* Adds size bytes at the end of the heap, where the last gap is a part of them if it lies there.
 * Returns where, NONE: no memory. */
static uint64_t take_end(struct page_heap *heap, uint64_t size)
{
	struct page_gap *last = heap->n_gaps ? &heap->gaps[heap->n_gaps - 1] : NULL;
	uint64_t begin = last && last->end == heap->end ? last->begin : heap->end;
	uint64_t from = heap->end, added;

	if (size > heap->reserved - begin)
		return NONE;
	added = begin + size - from;
	if (mprotect(heap->base + from, added, PROT_READ | PROT_WRITE))
		return NONE;
	heap->end += added;
	if (begin < from)
		heap->n_gaps--;
	return begin;
}

static void *take(struct page_heap *heap, uint64_t size)
{
	uint64_t begin = take_gap(heap, size);

	if (begin == NONE)
		begin = take_end(heap, size);
	if (begin == NONE)
		return NULL;
	heap->in_use += size;
	if (heap->in_use > heap->most)
		heap->most = heap->in_use;
	if (heap->in_use + kept(heap) > heap->most)
		drop_pages(heap);
	return heap->base + begin;
}

/* A block of its own mapping: malloc() would keep its pages when it is released. */
static int take_mapping(void **memory, uint64_t size, const char *what, struct err *err)
{
	*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*memory != MAP_FAILED)
		return 0;
	*memory = NULL;
	return err_set(err, ERR_SYSTEM, "out of memory: cannot allocate %" PRIu64 " bytes for %s",
		       size, what);
}

static uint64_t whole_pages(const struct page_heap *heap, uint64_t size)
{
	return (size + heap->page - 1) / heap->page * heap->page;
}

int page_heap_take(struct page_heap *heap, void **memory, uint64_t size, const char *what,
		   struct err *err)
{
	*memory = NULL;
	if (heap->base && size <= heap->reserved) {
		pthread_mutex_lock(&heap->lock);
		*memory = take(heap, whole_pages(heap, size));
		pthread_mutex_unlock(&heap->lock);
	}
	return *memory ? 0 : take_mapping(memory, whole_pages(heap, size), what, err);
}

/* Is memory of the heap, and not of its own mapping? */
static bool is_block(const struct page_heap *heap, const void *memory)
{
	uintptr_t address = (uintptr_t)memory, base = (uintptr_t)heap->base;

	return heap->base && address >= base && address - base < heap->reserved;
}

/* Adds a gap, together with those that it touches. */
static void give(struct page_heap *heap, struct page_gap gap)
{
	size_t i = 0;

	heap->in_use -= gap.kept;
	while (i < heap->n_gaps && heap->gaps[i].begin < gap.begin)
		i++;
	if (i < heap->n_gaps && heap->gaps[i].begin == gap.end) {
		gap.end = heap->gaps[i].end;
		gap.kept += heap->gaps[i].kept;
		gap_remove(heap, i);
	}
	if (i > 0 && heap->gaps[i - 1].end == gap.begin) {
		heap->gaps[i - 1].end = gap.end;
		heap->gaps[i - 1].kept += gap.kept;
	} else {
		gap_insert(heap, i, gap);
	}
}

void page_heap_give(struct page_heap *heap, void *memory, uint64_t size)
{
	uint64_t n = whole_pages(heap, size), begin;

	if (!memory)
		return;
	if (!is_block(heap, memory)) {
		munmap(memory, n);
		return;
	}
	begin = (uint64_t)((unsigned char *)memory - heap->base);
	pthread_mutex_lock(&heap->lock);
	give(heap, (struct page_gap){ begin, begin + n, n });
	pthread_mutex_unlock(&heap->lock);
}
