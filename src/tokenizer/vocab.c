/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/bpe.h"

static uint32_t hash_of(const char *text, size_t len)
{
	uint64_t hash = len, part;

	for (; len >= sizeof part; text += sizeof part, len -= sizeof part) {
		memcpy(&part, text, sizeof part);
		hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	part = 0;
	memcpy(&part, text, len);
	hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
	hash = (hash ^ hash >> 32) *
	       0xd6e8feb86659fd93u; /* brings the last bytes to the low bits */
	return (uint32_t)(hash >> 32);
}

static uint64_t head_of(const char *text, size_t len)
{
	uint64_t head = 0;

	memcpy(&head, text, len < sizeof head ? len : sizeof head);
	return head;
}

/* Returns the slot of text, or the free slot where it would be entered. */
static struct vocab_slot *slot_of(const struct vocab *vocab, const char *text, size_t len,
				  uint32_t hash)
{
	size_t mask = vocab->n_slots - 1;
	uint64_t head = head_of(text, len);

	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		struct vocab_slot *slot = &vocab->slots[i];

		if (slot->id == NO_TOKEN)
			return slot;
		if (slot->head == head && slot->len == len &&
		    (len <= sizeof head || !memcmp(vocab->text.data + slot->begin, text, len)))
			return slot;
	}
}

void vocab_reserve(struct vocab *vocab, size_t n)
{
	struct vocab_slot *old = vocab->slots;
	size_t n_old = vocab->n_slots;

	if (2 * n <= n_old)
		return;
	for (vocab->n_slots = n_old ? n_old : 64; vocab->n_slots < 2 * n;)
		vocab->n_slots *= 2;
	vocab->slots = xreallocarray(NULL, vocab->n_slots, sizeof *vocab->slots);
	for (size_t i = 0; i < vocab->n_slots; i++)
		vocab->slots[i].id = NO_TOKEN;
	for (size_t i = 0; i < n_old; i++) {
		size_t at = old[i].hash & (vocab->n_slots - 1);

		if (old[i].id == NO_TOKEN)
			continue;
		while (vocab->slots[at].id != NO_TOKEN)
			at = (at + 1) & (vocab->n_slots - 1);
		vocab->slots[at] = old[i];
	}
	free(old);
}

uint32_t vocab_find(const struct vocab *vocab, const char *text, size_t len)
{
	return vocab->n ? slot_of(vocab, text, len, hash_of(text, len))->id : NO_TOKEN;
}

void vocab_prefetch(const struct vocab *vocab, const char *text, size_t len)
{
	if (vocab->n)
		__builtin_prefetch(&vocab->slots[hash_of(text, len) & (vocab->n_slots - 1)]);
}

bool vocab_add(struct vocab *vocab, const char *text, size_t len, uint32_t id)
{
	uint32_t hash = hash_of(text, len);
	struct vocab_slot *slot;

	vocab_reserve(vocab, vocab->n + 1);
	slot = slot_of(vocab, text, len, hash);
	if (slot->id != NO_TOKEN)
		return false;
	*slot = (struct vocab_slot){ head_of(text, len), hash, id, (uint32_t)vocab->text.len,
				     (uint32_t)len };
	buf_add(&vocab->text, text, len);
	vocab->n++;
	if (id > vocab->max_id)
		vocab->max_id = id;
	return true;
}

void vocab_release(struct vocab *vocab)
{
	buf_release(&vocab->text);
	free(vocab->slots);
	*vocab = (struct vocab){ 0 };
}
