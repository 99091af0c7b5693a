/* SPDX-License-Identifier: Apache-2.0
 *
 * Added tokens: strings that become one token wherever a text contains them.
 *
 * Order: added_read() once; for each text a zeroed struct added_search, then added_find() until it
 * returns NULL.
 */
#ifndef FP8CONV_TOKENIZER_ADDED_H
#define FP8CONV_TOKENIZER_ADDED_H

#include "base/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/step.h"

#define MAX_ADDED_LENGTH 4096 /* bytes */

struct added_token {
	char *content;
	size_t len;
	char *pattern; /* to search for: content, normalized if `normalized` */
	size_t pattern_len;
	uint32_t id;
	bool single_word, lstrip, rstrip, normalized;
};

/* The tokens to search for in one kind of text, sorted by pattern, bytewise. */
struct added_set {
	const struct added_token **tokens;
	size_t n;
	bool begins[256]; /* whether a pattern begins with the byte */
};

struct added_tokens {
	struct added_token *tokens;
	size_t n;
	struct added_set raw;	     /* before the normalizer */
	struct added_set normalized; /* after it */
	uint32_t max_id;
};

/* Reads the value of "added_tokens"; NULL or null means an empty list.  As in the tokenizers
 * package a token has its id of the vocabulary; a token outside of the vocabulary gets the next id
 * after it, whatever the file states.  The caller releases added, also on failure.  ERR_INPUT with
 * the key. */
int added_read(struct added_tokens *added, const json_t *json, const struct vocab *vocab,
	       const struct steps *normalizer, struct err *err);
void added_release(struct added_tokens *added);

/* The state of a search in one text: `at` is the end of the last match, `done` the end of the white
 * space that this match stripped. */
struct added_search {
	size_t at, done;
};

/* Returns the next token of set in text, which covers the bytes [*begin, *end) with stripped white
 * space included.  No token lies between the old search->done and *begin.  Returns NULL at the
 * end. */
const struct added_token *added_find(const struct added_set *set, const char *text, size_t len,
				     struct added_search *search, size_t *begin, size_t *end);

#endif
