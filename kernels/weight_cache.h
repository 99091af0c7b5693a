/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of released weights on a GPU, kept for the weights of the next layer, which have the same
 * sizes: freeing memory would stop all streams.  Thread-safe.
 *
 * Order: weight_cache_init(); weight_cache_take() and weight_cache_give() for each weight;
 * weight_cache_release().
 */
#ifndef FP8CONV_KERNELS_WEIGHT_CACHE_H
#define FP8CONV_KERNELS_WEIGHT_CACHE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The source of the memory.  alloc: ERR_SYSTEM with `what` and the size in the message.  free
 * accepts NULL. */
struct weight_allocator {
	int (*alloc)(int device, void **memory, uint64_t size, const char *what, struct err *err);
	void (*free)(void *memory);
};

struct cached_weight {
	void *memory;
	uint64_t size;
};

struct weight_cache {
	const struct weight_allocator *allocator;
	int device;
	pthread_mutex_t lock; /* of the members below */
	size_t n;
	struct cached_weight *weights;
};

/* device: for alloc(). */
void weight_cache_init(struct weight_cache *cache, const struct weight_allocator *allocator,
		       int device);
void weight_cache_release(struct weight_cache *cache);

/* Returns memory of exactly size bytes, from the cache or new.  If the cache has none of that size,
 * it first frees all its memory, which is not of the next layer. */
int weight_cache_take(struct weight_cache *cache, void **memory, uint64_t size, struct err *err);

/* Frees the memory that no weight has. */
void weight_cache_clear(struct weight_cache *cache);

/* Keeps memory of this size for a later weight; memory may be NULL. */
void weight_cache_give(struct weight_cache *cache, void *memory, uint64_t size);

#endif
