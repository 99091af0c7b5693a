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

static void grow(struct intern *intern)
{
	intern->n_slots = intern->n_slots ? 4 * intern->n_slots : 64;
	free(intern->slots);
	intern->slots = xcalloc(intern->n_slots, sizeof *intern->slots);
	for (size_t i = 0; i < intern->n; i++) {
		size_t slot = intern->entries[i].hash & (intern->n_slots - 1);

		while (intern->slots[slot])
			slot = (slot + 1) & (intern->n_slots - 1);
		intern->slots[slot] = (uint32_t)i + 1;
	}
}

/* Returns the slot of a string, or the free one where it belongs; there must be one. */
static size_t find_slot(const struct intern *intern, uint64_t hash, const void *key, size_t len)
{
	size_t slot = hash & (intern->n_slots - 1);

	for (; intern->slots[slot]; slot = (slot + 1) & (intern->n_slots - 1)) {
		const struct intern_entry *entry = &intern->entries[intern->slots[slot] - 1];

		if (entry->hash == hash && entry->len == len &&
		    !memcmp(intern->keys.data + entry->offset, key, len))
			break;
	}
	return slot;
}

size_t intern_add(struct intern *intern, const void *key, size_t len)
{
	uint64_t hash = hash_of(key, len);
	size_t slot;

	if (2 * intern->n >= intern->n_slots)
		grow(intern);
	slot = find_slot(intern, hash, key, len);
	if (intern->slots[slot])
		return intern->slots[slot] - 1;
	ARRAY_GROW(intern->entries, intern->n);
	intern->entries[intern->n] = (struct intern_entry){ hash, intern->keys.len, len };
	buf_add(&intern->keys, key, len);
	intern->slots[slot] = (uint32_t)++intern->n;
	return intern->n - 1;
}

size_t intern_find(const struct intern *intern, const void *key, size_t len)
{
	size_t slot = intern->n ? find_slot(intern, hash_of(key, len), key, len) : 0;

	return intern->n && intern->slots[slot] ? intern->slots[slot] - 1 : SIZE_MAX;
}

void intern_release(struct intern *intern)
{
	free(intern->entries);
	free(intern->slots);
	buf_release(&intern->keys);
	*intern = (struct intern){ 0 };
}
