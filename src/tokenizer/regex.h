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

/* Translates an Oniguruma pattern into PCRE2's syntax, appended to out.  ERR_INPUT saying what
 * construct is not known or means something else there, at which byte. */
int regex_translate(const char *pattern, size_t len, struct buf *out, struct err *err);

/* A pattern that matches text itself, appended to out. */
void regex_quote(const char *text, size_t len, struct buf *out);

/* Compiles PCRE2 syntax. */
int regex_new(struct regex **regex, const struct buf *pattern, struct err *err);
void regex_free(struct regex *regex);

/* What one thread needs to search; one for each search that is under way. */
struct regex_search {
	const struct regex *regex;
	void *match;	 /* PCRE2's match data */
	struct buf copy; /* text with older characters */
	const char *text;
	size_t len;
	size_t at;    /* where the next search begins */
	size_t last;  /* where the last match ended */
	bool matched; /* there was one */
};

void regex_search_release(struct regex_search *search);

/* Starts over at the beginning of text, which is good UTF-8 and stays in place. */
void regex_search_start(struct regex_search *search, const struct regex *regex, const char *text,
			size_t len);

/* 1: the next match in text is [*begin, *end).  0: there is none.  -1: the pattern exceeds its
 * limit of steps.  No match overlaps another, and an empty one does not stand where the last one
 * ended. */
int regex_search_next(struct regex_search *search, size_t *begin, size_t *end, struct err *err);

#endif
