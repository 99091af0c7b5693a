/* SPDX-License-Identifier: Apache-2.0 */
#include "names/role_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The key is the name with one byte, which no name contains, in place of each segment that is a
 * number and of three or more digits anywhere: no rule contains those.  Written by hand, because it
 * is half of the cost of a tensor. */
static size_t make_key(struct role_cache *cache, const char *name)
{
	size_t n = strlen(name), length = 0, digits;
	char *key;

	if (n >= cache->key_size)
		cache->key = xreallocarray(cache->key, cache->key_size = 2 * n + 1, 1);
	key = cache->key;
	for (size_t i = 0; i < n; i += digits) {
		for (; i < n && !is_digit(name[i]); i++)
			key[length++] = name[i];
		for (digits = 0; is_digit(name[i + digits]);)
			digits++;
		if (digits >= 3 || (digits && (i == 0 || name[i - 1] == '.') &&
				    (!name[i + digits] || name[i + digits] == '.')))
			key[length++] = '\1';
		else
			for (size_t d = 0; d < digits; d++)
				key[length++] = name[i + d];
	}
	return length;
}

size_t role_cache_add(struct role_cache *cache, const char *name)
{
	size_t known = cache->names.n, length, i;

	length = make_key(cache, name);
	i = intern_add(&cache->names, cache->key, length);
	if (i == known) {
		ARRAY_GROW(cache->facts, known);
		role_of_name(&cache->facts[i], name);
	}
	return i;
}

struct role_facts role_cache_find(struct role_cache *cache, const char *name)
{
	size_t i = role_cache_add(cache, name);

	return cache->facts[i];
}

void role_cache_release(struct role_cache *cache)
{
	intern_release(&cache->names);
	free(cache->facts);
	free(cache->key);
}
