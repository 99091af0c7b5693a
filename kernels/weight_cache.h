/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of weights that were released.  The weights of the next layer have the same sizes: on a
 * CPU a page that was touched before costs nothing, and on a GPU to free memory would stop all
 * streams.  Serves all threads.
 */
#ifndef FP8CONV_KERNELS_WEIGHT_CACHE_H
#define FP8CONV_KERNELS_WEIGHT_CACHE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Where the memory comes from.  alloc: ERR_SYSTEM with `what` and the size in the message; free:
 * of NULL too. */
struct weight_allocator {
	int (*alloc)(void **memory, uint64_t size, const char *what, struct err *err);
	void (*free)(void *memory);
};

struct cached_weight {
	void *memory;
	uint64_t size;
};

struct weight_cache {
	const struct weight_allocator *allocator;
	pthread_mutex_t lock; /* of what follows */
	size_t n;
	struct cached_weight *weights;
};

void weight_cache_init(struct weight_cache *cache, const struct weight_allocator *allocator);
void weight_cache_release(struct weight_cache *cache);

/* Memory of exactly size bytes, from the cache or new.  Where the cache has none of that size, all
 * it has is freed first: it is not of the layer to come. */
int weight_cache_take(struct weight_cache *cache, void **memory, uint64_t size, struct err *err);

/* Keeps memory of that size for the next weight; memory may be NULL. */
void weight_cache_give(struct weight_cache *cache, void *memory, uint64_t size);

#endif
