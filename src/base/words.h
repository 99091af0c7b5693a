/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: the names of an enum as one text in its order, such as "te|deepseek|deepgemm"; and the
 * nearest name to a misspelled word.
 */
#ifndef FP8CONV_BASE_WORDS_H
#define FP8CONV_BASE_WORDS_H

#include "base/err.h"

/* Makes an enum of a table whose rows begin with its names, which so stand nowhere else:
 * #define ROWS(X) X(RED, "red") X(BLUE, "blue")
 * enum color { ROWS(WORDS_ID) N_COLORS }; */
#define WORDS_ID(id, ...) id,

/* Returns the index of a word, or -1.  word may be NULL; an empty list has no word. */
int words_find(const char *words, const char *word);

/* Copies the word with this index, which exists, to word.  Returns word. */
#define WORD_SIZE 32
const char *words_get(const char *words, int index, char word[WORD_SIZE]);

/* Returns the name (names ends in NULL) that needs the fewest insertions, deletions, substitutions
 * and swaps of neighbors to become `word`, the first of equals, or that begins with `word`, of 3
 * letters or more.  NULL where all need more than a third of its length, at least 1. */
const char *words_nearest(const char *word, const char *const *names);

/* Fails with ERR_USAGE: "unknown NOUN 'WORD'", and the nearest of names (which ends in NULL), or
 * else the command that lists them, such as "fp8conv recipes".  Returns -1. */
int words_unknown(const char *noun, const char *word, const char *const *names, const char *list,
		  struct err *err);

#endif
