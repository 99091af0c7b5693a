/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: the names of an enum as one text, "te|deepseek|deepgemm", in its order; and which name was
 * meant.
 */
#ifndef FP8CONV_BASE_WORDS_H
#define FP8CONV_BASE_WORDS_H

#include "base/err.h"

/* The index of a word, or -1; word may be NULL. */
int words_find(const char *words, const char *word);

/* Copies the word of an index, which is one of them, and is shorter than WORD_SIZE. */
#define WORD_SIZE 32
const char *words_get(const char *words, int index, char word[WORD_SIZE]);

/* The one of names (NULL at the end) that takes the fewest insertions, deletions, substitutions and
 * swaps of neighbors to become wanted, the first of equals.  NULL where none is near: more than a
 * third of wanted's length, 2 at least (so that short slips still count). */
const char *words_nearest(const char *wanted, const char *const *names);

/* ERR_USAGE: "unknown NOUN 'WORD'", with the nearest of names (NULL at the end), or where none is
 * near with the command that lists them, as "fp8conv recipes".  Returns -1. */
int words_unknown(const char *noun, const char *word, const char *const *names, const char *list,
		  struct err *err);

#endif
