/* SPDX-License-Identifier: Apache-2.0
 *
 * Added tokens: strings that become one token wherever they stand in a text.
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
	char *pattern; /* to search for: content, normalized where the token says so */
	size_t pattern_len;
	uint32_t id;
	bool single_word, lstrip, rstrip, normalized;
};

/* The tokens to search for in one kind of text, sorted by pattern, bytewise. */
struct added_set {
	const struct added_token **tokens;
	size_t n;
	bool begins[256]; /* by first byte */
};

struct added_tokens {
	struct added_token *tokens;
	size_t n;
	struct added_set raw;	     /* before the normalizer */
	struct added_set normalized; /* after it */
	uint32_t max_id;
};

/* Reads "added_tokens" (NULL or null: none).  As in the tokenizers package the id is that of the
 * vocabulary; a token that is not in it gets the next id behind the vocabulary, regardless of the
 * file.  ERR_INPUT with the key. */
int added_read(struct added_tokens *added, const json_t *json, const struct vocab *vocab,
	       const struct steps *normalizer, struct err *err);
void added_release(struct added_tokens *added);

/* The state of a search: `at` is behind the last match, `done` behind the white space that the
 * match stripped. */
struct added_search {
	size_t at, done;
};

/* The next token of set in text; it covers [*begin, *end), stripped white space included.  Between
 * the old search->done and *begin there is no token.  NULL: no more tokens. */
const struct added_token *added_find(const struct added_set *set, const char *text, size_t len,
				     struct added_search *search, size_t *begin, size_t *end);

#endif
