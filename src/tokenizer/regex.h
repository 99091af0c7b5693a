/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns of a tokenizer.json, written for Oniguruma (Ruby's syntax), run by PCRE2.
 */
#ifndef FP8CONV_TOKENIZER_REGEX_H
#define FP8CONV_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define REGEX_MAX_PATTERN 65536 /* bytes */

struct regex; /* compiled; shared by threads */

/* Translates an Oniguruma pattern into PCRE2's syntax, appended to out.  ERR_INPUT with the
 * byte and the construct that is unsupported, or that PCRE2 reads differently. */
int regex_translate(const char *pattern, size_t len, struct buf *out, struct err *err);

/* Appends to out a pattern that matches exactly text. */
void regex_quote(const char *text, size_t len, struct buf *out);

/* Compiles PCRE2 syntax. */
int regex_new(struct regex **regex, const struct buf *pattern, struct err *err);
void regex_free(struct regex *regex);

/* The state of one search of one thread. */
struct regex_search {
	const struct regex *regex;
	void *match;	 /* PCRE2's match data */
	struct buf copy; /* of the text, with older characters (unicode_known()) */
	const char *text;
	size_t len;
	size_t at;    /* the next search begins here */
	size_t last;  /* the last match ended here */
	bool matched; /* there was one */
};

void regex_search_release(struct regex_search *search);

/* Starts at the beginning of text, which is valid UTF-8 and must stay in place. */
void regex_search_start(struct regex_search *search, const struct regex *regex, const char *text,
			size_t len);

/* 1: the next match in text is [*begin, *end).  0: there is none.  -1: the pattern exceeds its
 * limit of steps.  No match overlaps another, and an empty match is not where the last match
 * ended. */
int regex_search_next(struct regex_search *search, size_t *begin, size_t *end, struct err *err);

#endif
