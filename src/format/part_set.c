/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash is a polynomial modulo 2^64: that of a part follows from the hashes of the text up to
 * its two ends.  A hash that is found is compared byte by byte.
 */
#include "format/part_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define BASE 0x9E3779B97F4A7C15u /* 2^64 / golden ratio, odd */

struct part_slot {
	uint64_t hash;
	const char *text; /* not terminated; NULL: empty */
	size_t n;
};

static uint64_t extend(uint64_t hash, char byte)
{
	return hash * BASE + (unsigned char)byte + 1;
}

static uint64_t hash_of(const char *text, size_t n)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < n; i++)
		hash = extend(hash, text[i]);
	return hash;
}

/* Returns the place of the hash among n, a power of two. */
static size_t place(uint64_t hash, size_t n)
{
	return (hash ^ hash >> 32) & (n - 1);
}

static bool has_bit(const struct part_set *set, uint64_t hash)
{
	size_t bit = place(hash, 8 * set->n_slots);

	return set->bits[bit / 64] >> bit % 64 & 1;
}

/* Returns the slot that has the text, or the empty one where it belongs. */
static struct part_slot *find_slot(const struct part_set *set, uint64_t hash, const char *text,
				   size_t n)
{
	for (size_t i = place(hash, set->n_slots);; i = (i + 1) & (set->n_slots - 1)) {
		struct part_slot *slot = &set->slots[i];

		if (!slot->text ||
		    (slot->hash == hash && slot->n == n && !memcmp(slot->text, text, n)))
			return slot;
	}
}

void part_set_init(struct part_set *set, size_t n)
{
	*set = (struct part_set){ .n_slots = 16 };
	while (set->n_slots < 2 * n)
		set->n_slots *= 2;
	set->slots = xcalloc(set->n_slots, sizeof *set->slots);
	set->bits = xcalloc(set->n_slots / 8, sizeof *set->bits);
}

void part_set_add(struct part_set *set, const char *text, size_t n)
{
	uint64_t hash = hash_of(text, n);
	size_t bit = place(hash, 8 * set->n_slots);

	*find_slot(set, hash, text, n) = (struct part_slot){ hash, text, n };
	set->bits[bit / 64] |= UINT64_C(1) << bit % 64;
	set->lengths |= part_set_length_bit(n);
}

const char *part_set_get(const struct part_set *set, const char *text, size_t n)
{
	return find_slot(set, hash_of(text, n), text, n)->text;
}

static void grow(struct part_text *parts, size_t n)
{
	size_t i = parts->room;

	parts->room = 2 * n + 1;
	parts->text = xreallocarray(parts->text, parts->room, 1);
	parts->sums = xreallocarray(parts->sums, parts->room, sizeof *parts->sums);
	parts->powers = xreallocarray(parts->powers, parts->room, sizeof *parts->powers);
	if (!i) {
		parts->sums[0] = 0;
		parts->powers[i++] = 1;
	}
	for (; i < parts->room; i++)
		parts->powers[i] = parts->powers[i - 1] * BASE;
}

/* Returns how many bytes the texts share at their beginnings. */
static size_t count_shared(const char *a, const char *b, size_t n)
{
	const size_t step = sizeof(uint64_t);
	size_t i = 0;

	while (i + step <= n && !memcmp(a + i, b + i, step))
		i += step;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

size_t part_set_read(struct part_text *parts, const char *text, size_t n)
{
	size_t shared;

	if (n >= parts->room)
		grow(parts, n);
	shared = count_shared(parts->text, text, n < parts->n ? n : parts->n);
	parts->n = n;
	for (size_t i = shared; i < n; i++) {
		parts->text[i] = text[i];
		parts->sums[i + 1] = extend(parts->sums[i], text[i]);
	}
	return shared;
}

const char *part_set_find(const struct part_set *set, const struct part_text *parts, size_t begin,
			  size_t end)
{
	uint64_t hash = parts->sums[end] - parts->sums[begin] * parts->powers[end - begin];

	if (!part_set_has_length(set, end - begin) || !has_bit(set, hash))
		return NULL;
	return find_slot(set, hash, parts->text + begin, end - begin)->text;
}

void part_set_release(struct part_set *set, struct part_text *parts)
{
	free(set->slots);
	free(set->bits);
	*set = (struct part_set){ 0 };
	if (!parts)
		return;
	free(parts->text);
	free(parts->sums);
	free(parts->powers);
	*parts = (struct part_text){ 0 };
}
