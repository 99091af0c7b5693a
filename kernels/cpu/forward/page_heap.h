/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the weights of layers, one layer after the other.  The pages of a released block stay
 * with the process and serve the next blocks, best those of the same size: a new page costs a
 * fault and 4 KiB of zeros, which for weights that are loaded for a few sequences was a tenth of
 * the time.
 * Thread-safe.
 *
 * The heap never has more pages than the blocks that were in use at one time.
 *
 * Order: page_heap_init(); page_heap_take() and page_heap_give() for each block;
 * page_heap_release().
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_PAGE_HEAP_H
#define FP8CONV_KERNELS_CPU_FORWARD_PAGE_HEAP_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A released mapping. */
struct page_block {
	unsigned char *memory;
	uint64_t size; /* whole pages */
};

struct page_heap {
	pthread_mutex_t lock; /* of all following members */
	uint64_t page;	      /* bytes */
	uint64_t in_use;      /* bytes of blocks */
	uint64_t kept;	      /* bytes of released ones */
	uint64_t most;	      /* the largest in_use so far */
	size_t n;
	struct page_block *blocks; /* released */
};

void page_heap_init(struct page_heap *heap);
void page_heap_release(struct page_heap *heap);

/* Returns a block of size bytes (at least 1), aligned to a page, with any content.  ERR_SYSTEM with
 * `what` and the size without memory. */
int page_heap_take(struct page_heap *heap, void **memory, uint64_t size, const char *what,
		   struct err *err);

/* Releases a block, of the size that was asked for; memory may be NULL. */
void page_heap_give(struct page_heap *heap, void *memory, uint64_t size);

#endif
