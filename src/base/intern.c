/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing.
 */
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
	return hash ^ (hash >> 29);
}

static uint64_t hash_of(const void *key, size_t len)
{
	const char *bytes = key;
	uint64_t hash = len, word;

	for (; len >= sizeof word; len -= sizeof word, bytes += sizeof word) {
		memcpy(&word, bytes, sizeof word);
		hash = mix(hash, word);
	}
	word = 0;
	memcpy(&word, bytes, len);
	return mix(mix(hash, word), 0);
}

static void grow(struct keymap *map)
{
	map->n_slots = map->n_slots ? 4 * map->n_slots : 64;
	free(map->slots);
	map->slots = xcalloc(map->n_slots, sizeof *map->slots);
	for (size_t i = 0; i < map->n; i++) {
		size_t slot = map->entries[i].hash & (map->n_slots - 1);

		while (map->slots[slot])
			slot = (slot + 1) & (map->n_slots - 1);
		map->slots[slot] = i + 1;
	}
}

size_t keymap_add(struct keymap *map, const void *key, size_t len)
{
	uint64_t hash = hash_of(key, len);
	size_t slot;

	if (2 * map->n >= map->n_slots)
		grow(map);
	for (slot = hash & (map->n_slots - 1); map->slots[slot];
	     slot = (slot + 1) & (map->n_slots - 1)) {
		const struct keymap_entry *entry = &map->entries[map->slots[slot] - 1];

		if (entry->hash == hash && entry->len == len &&
		    !memcmp(map->keys.data + entry->offset, key, len))
			return map->slots[slot] - 1;
	}
	ARRAY_GROW(map->entries, map->n);
	map->entries[map->n] = (struct keymap_entry){ hash, map->keys.len, len };
	buf_add(&map->keys, key, len);
	map->slots[slot] = ++map->n;
	return map->n - 1;
}

void keymap_release(struct keymap *map)
{
	free(map->entries);
	free(map->slots);
	buf_release(&map->keys);
	*map = (struct keymap){ 0 };
}
