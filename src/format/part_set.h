/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of texts in which many parts of one text are looked up.  A text is hashed once, and each
 * part costs a multiplication then.  Texts that come sorted are hashed only where they differ.
 *
 * Order: part_set_init(), part_set_add() at most n times; then for each text part_set_read() and
 * part_set_find().
 */
#ifndef FP8CONV_FORMAT_PART_SET_H
#define FP8CONV_FORMAT_PART_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct part_set {
	size_t n_slots; /* a power of two */
	struct part_slot *slots;
	uint64_t *bits;	  /* 8 for each slot, one set for each text: few misses read slots */
	uint64_t lengths; /* a bit for each length; 63: that or more */
};

/* A text whose parts are looked up.  Zeroed: empty. */
struct part_text {
	char *text; /* a copy, not terminated */
	size_t n;
	uint64_t *sums, *powers; /* hashes of its beginnings; powers of their base */
	size_t room;
};

/* Makes an empty set for at most n texts. */
void part_set_init(struct part_set *set, size_t n);

/* Adds the first n bytes of a text that outlives the set. */
void part_set_add(struct part_set *set, const char *text, size_t n);

/* Returns the text of the set that equals these n bytes, or NULL. */
const char *part_set_get(const struct part_set *set, const char *text, size_t n);

static inline uint64_t part_set_length_bit(size_t n)
{
	return UINT64_C(1) << (n < 63 ? n : 63);
}

/* Returns false only if the set has no text of n bytes. */
static inline bool part_set_has_length(const struct part_set *set, size_t n)
{
	return set->lengths & part_set_length_bit(n);
}

/* Takes the next text of n bytes.  Returns the length of the beginning that it shares with the text
 * before: only the rest is hashed. */
size_t part_set_read(struct part_text *parts, const char *text, size_t n);

/* Returns the text of the set that equals the bytes [begin, end) of the text, or NULL. */
const char *part_set_find(const struct part_set *set, const struct part_text *parts, size_t begin,
			  size_t end);

void part_set_release(struct part_set *set, struct part_text *parts);

#endif
