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
	char *pattern; /* what is looked for: content, or that normalized */
	size_t pattern_len;
	uint32_t id;
	bool single_word, lstrip, rstrip, normalized;
};

/* Those that are looked for in one text, by pattern, bytewise. */
struct added_set {
	const struct added_token **tokens;
	size_t n;
	bool begins[256]; /* by first byte */
};

struct added_tokens {
	struct added_token *tokens;
	size_t n;
	struct added_set raw;	     /* for the text as it comes */
	struct added_set normalized; /* for the text after the normalizer */
	uint32_t max_id;
};

/* Reads "added_tokens" (NULL or null: none).  As in the tokenizers package the id is that of the
 * vocabulary, and of a token that is not in it the next one behind the vocabulary, whatever the
 * file says.  ERR_INPUT with the key. */
int added_read(struct added_tokens *added, const json_t *json, const struct vocab *vocab,
	       const struct steps *normalizer, struct err *err);
void added_release(struct added_tokens *added);

/* Where a search stands: behind the last match, and behind the white space that this one stripped.
 */
struct added_search {
	size_t at, done;
};

/* The next token of set in text: *begin and *end are what it takes up, stripped white space
 * included.  The text from search->done (as it was) to *begin holds none.  NULL: there is no other.
 */
const struct added_token *added_find(const struct added_set *set, const char *text, size_t len,
				     struct added_search *search, size_t *begin, size_t *end);

#endif
