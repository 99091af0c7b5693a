/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of a tokenizer.json: byte-pair encoding (BPE) of words.
 *
 * Order: bpe_read() once; each thread has a zeroed struct bpe_work and calls bpe_encode() for each
 * word.
 */
#ifndef FP8CONV_TOKENIZER_BPE_H
#define FP8CONV_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "tokenizer/token_ids.h"

#define NO_TOKEN UINT32_MAX

/* The strings of tokens and their ids: a hash table with open addressing.  A zeroed struct is
 * empty. */
struct vocab {
	struct buf text; /* all strings, without separators */
	struct vocab_slot {
		uint64_t head;	   /* the first 8 bytes, padded with zeros: few tokens are longer */
		uint32_t hash, id; /* id NO_TOKEN: free */
		uint32_t begin, len;
	} * slots;
	size_t n_slots; /* a power of two, at least twice n */
	size_t n;
	uint32_t max_id;
};

uint32_t vocab_find(const struct vocab *vocab, const char *text,
		    size_t len); /* NO_TOKEN: missing */
/* Prefetches the slot that vocab_find() reads for the same text. */
void vocab_prefetch(const struct vocab *vocab, const char *text, size_t len);
/* Adds a copy of text.  Returns false, and changes nothing, where the vocabulary has text. */
bool vocab_add(struct vocab *vocab, const char *text, size_t len, uint32_t id);
void vocab_reserve(struct vocab *vocab, size_t n); /* room for n tokens at once */
void vocab_release(struct vocab *vocab);

/* Two adjacent symbols left and right become the symbol id.  Of two possible merges the one of
 * lower rank happens first. */
struct merge {
	uint32_t left, right; /* left NO_TOKEN: a free slot */
	uint32_t rank, id;
};

struct bpe {
	struct vocab vocab;
	/* [UNICODE_END]: 1 + the id of the token that consists of this character; 0: no token */
	uint32_t *char_ids;
	uint32_t byte_ids[256]; /* of "<0x00>"...; NO_TOKEN: missing */
	struct merge *merges;
	size_t n_merge_slots; /* a power of two */
	uint64_t *joins; /* bits by the hash of two symbols: set where some merge may join them */
	bool all_join;	 /* some merges have symbols that are not characters: joins is not used */
	bool ignore_merges, byte_fallback, fuse_unk;
	uint32_t unk_id;
	char *unk_token; /* NULL: characters without a token disappear */
};

/* Reads the member "model" of a tokenizer.json, in time linear in the text.  The caller releases
 * bpe, also on failure.  ERR_INPUT without the name of the file, for the caller to add. */
int bpe_read(struct bpe *bpe, struct json_text model, struct err *err);
void bpe_release(struct bpe *bpe);

/* Returns false where no merge can put the adjacent characters left and right into one token. */
bool bpe_may_join(const struct bpe *bpe, uint32_t left, uint32_t right);

/* Returns the merge of two adjacent symbols (ids), or NULL. */
const struct merge *bpe_merge_of(const struct bpe *bpe, uint32_t left, uint32_t right);

/* The symbols of a word during its merges.  Each thread has its own.  A zeroed struct is empty. */
struct bpe_work {
	uint32_t *symbols;
	size_t n, cap;
	struct bpe_link *links; /* of words above SHORT_RUN symbols, as is queue */
	struct bpe_step *queue;
	size_t n_queue, cap_links, cap_queue;
};

void bpe_work_release(struct bpe_work *work);

/* Appends the tokens of a word (valid UTF-8, not empty) to out.  Takes O(n log n) for n bytes.
 * ERR_INPUT where a character has no token. */
int bpe_encode(const struct bpe *bpe, struct bpe_work *work, const char *word, size_t len,
	       struct token_ids *out, struct err *err);

#endif
