/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/weight_cache.h"

#include <stdlib.h>

#include "base/mem.h"

void weight_cache_init(struct weight_cache *cache, const struct weight_allocator *allocator,
		       int device)
{
	*cache = (struct weight_cache){ .allocator = allocator, .device = device };
	pthread_mutex_init(&cache->lock, NULL);
}

/* The caller holds the lock. */
static void free_all(struct weight_cache *cache)
{
	for (size_t i = 0; i < cache->n; i++)
		cache->allocator->free(cache->weights[i].memory);
	free(cache->weights);
	cache->weights = NULL;
	cache->n = 0;
}

void weight_cache_release(struct weight_cache *cache)
{
	free_all(cache);
	pthread_mutex_destroy(&cache->lock);
}

void weight_cache_clear(struct weight_cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	free_all(cache);
	pthread_mutex_unlock(&cache->lock);
}

int weight_cache_take(struct weight_cache *cache, void **memory, uint64_t size, struct err *err)
{
	size_t i = 0;

	*memory = NULL;
	pthread_mutex_lock(&cache->lock);
	while (i < cache->n && cache->weights[i].size != size)
		i++;
	if (i < cache->n) {
		*memory = cache->weights[i].memory;
		cache->weights[i] = cache->weights[--cache->n];
	} else {
		free_all(cache);
	}
	pthread_mutex_unlock(&cache->lock);
	return *memory ? 0 : cache->allocator->alloc(cache->device, memory, size, "a weight", err);
}

void weight_cache_give(struct weight_cache *cache, void *memory, uint64_t size)
{
	if (!memory)
		return;
	pthread_mutex_lock(&cache->lock);
	ARRAY_GROW(cache->weights, cache->n);
	cache->weights[cache->n++] = (struct cached_weight){ memory, size };
	pthread_mutex_unlock(&cache->lock);
}
