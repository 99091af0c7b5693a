/* SPDX-License-Identifier: Apache-2.0
 *
 * Roles by name, each computed once for all names that differ only in numbers: a checkpoint of
 * 100,000 tensors has perhaps 50 of them.
 */
#ifndef FP8CONV_NAMES_ROLE_CACHE_H
#define FP8CONV_NAMES_ROLE_CACHE_H

#include <stddef.h>

#include "base/intern.h"
#include "names/role.h"

/* Zeroed: empty.  For one thread. */
struct role_cache {
	struct intern names;	  /* without their numbers */
	struct role_facts *facts; /* by name */
	char *key;		  /* scratch */
	size_t key_size;
};

/* Returns the number of the name in cache->facts: equal for names that differ only in numbers, and
 * new ones follow without gaps. */
size_t role_cache_add(struct role_cache *cache, const char *name);

/* Returns what role_of_name() makes of the name. */
struct role_facts role_cache_find(struct role_cache *cache, const char *name);

void role_cache_release(struct role_cache *cache);

#endif
