/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns of a tokenizer.json, which are written for Oniguruma (Ruby's syntax) and run by
 * PCRE2.
 *
 * Order: regex_translate() or regex_quote(), then regex_new() once; for each text
 * regex_search_start(), then regex_search_next() until it returns 0 or -1.
 */
#ifndef FP8CONV_TOKENIZER_REGEX_H
#define FP8CONV_TOKENIZER_REGEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define REGEX_MAX_PATTERN 65536 /* bytes */

struct regex; /* compiled; shared by threads */

/* Translates an Oniguruma pattern of len bytes and appends it to out in PCRE2's syntax.  ERR_INPUT,
 * with the byte and the construct, where PCRE2 does not support a construct or reads it
 * differently. */
int regex_translate(const char *pattern, size_t len, struct buf *out, struct err *err);

/* Appends to out a pattern that matches text only. */
void regex_quote(const char *text, size_t len, struct buf *out);

/* Compiles a pattern in PCRE2's syntax.  The caller frees *regex.  ERR_INPUT with the reason of
 * PCRE2. */
int regex_new(struct regex **regex, const struct buf *pattern, struct err *err);
void regex_free(struct regex *regex);

/* The work of all searches for one caller, which is bounded by the bytes that are searched: a limit
 * for each match alone allows any number of matches that reach it.  Begins with `stop` alone. */
struct regex_work {
	const atomic_int *stop; /* not NULL: a signal number there ends a search */
	uint64_t n_bytes;	/* of all texts */
	uint64_t n_steps;	/* of matches that took many */
};

/* The state of one search in one thread.  A zeroed struct may be started and released. */
struct regex_search {
	const struct regex *regex;
	struct regex_work *work; /* set by the caller; NULL: only each match is bounded */
	void *match, *context;	 /* PCRE2's match data and match context */
	struct buf copy;	 /* of the text, with older characters (unicode_known()) */
	const char *text;
	size_t len;
	size_t at;    /* the next search begins here */
	size_t last;  /* the last match ended here */
	bool matched; /* a match preceded */
};

void regex_search_release(struct regex_search *search);

/* Starts at the beginning of text, valid UTF-8, which must outlive the search. */
void regex_search_start(struct regex_search *search, const struct regex *regex, const char *text,
			size_t len);

/* Returns 1 with the next match, bytes [*begin, *end) of text; 0 at the end; -1 with ERR_INPUT
 * where the pattern exceeds a limit of steps or memory, and with ERR_INTERRUPTED.  Matches do not
 * overlap, and no empty match follows directly on another match. */
int regex_search_next(struct regex_search *search, size_t *begin, size_t *end, struct err *err);

#endif
