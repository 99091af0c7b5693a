/* SPDX-License-Identifier: Apache-2.0
 *
 * Search by PCRE2, in UTF and UCP mode, compiled to machine code where the system allows it.
 */
#include "tokenizer/regex.h"

#include <inttypes.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "base/progress.h"
#include "tokenizer/unicode.h"

#define FIRST_LIMIT  1000u     /* PCRE2's steps of a match that are free: few matches need more */
#define LIMIT_GROWTH 8u	       /* of the next try of a match that needs more */
#define MATCH_LIMIT  10000000u /* of one match: PCRE2's default, a quarter of a second */
#define FREE_STEPS   50000000u /* of all matches, beside those for each byte */
#define BYTE_STEPS   200u
#define HEAP_LIMIT   (512u << 10) /* KiB of the interpreter */

struct regex {
	pcre2_code *code;
};

int regex_new(struct regex **regex, const struct buf *pattern, struct err *err)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR message[256];
	PCRE2_SIZE offset;
	pcre2_code *code;
	int error;

	if (!context)
		return err_set(err, ERR_SYSTEM, "out of memory for a pattern");
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	/* in Ruby ^ and $ match at every line */
	code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->len,
			     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
			     &error, &offset, context);
	pcre2_compile_context_free(context);
	if (!code) {
		pcre2_get_error_message(error, message, sizeof message);
		return err_set(err, ERR_INPUT, "%s", (const char *)message);
	}
	/* Without executable memory this fails, and PCRE2 interprets the pattern. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	*regex = xmalloc(sizeof **regex);
	(*regex)->code = code;
	return 0;
}

void regex_free(struct regex *regex)
{
	if (!regex)
		return;
	pcre2_code_free(regex->code);
	free(regex);
}

void regex_search_release(struct regex_search *search)
{
	pcre2_match_data_free(search->match);
	pcre2_match_context_free(search->context);
	buf_release(&search->copy);
	*search = (struct regex_search){ .work = search->work };
}

void regex_search_start(struct regex_search *search, const struct regex *regex, const char *text,
			size_t len)
{
	search->regex = regex;
	search->text = unicode_known(text, len, &search->copy);
	search->len = len;
	search->at = search->last = 0;
	search->matched = false;
	if (search->work)
		search->work->n_bytes += len;
}

static int match_error(int rc, struct err *err)
{
	PCRE2_UCHAR message[256];

	if (rc == PCRE2_ERROR_NOMEMORY)
		return err_set(err, ERR_SYSTEM, "out of memory for a pattern");
	pcre2_get_error_message(rc, message, sizeof message);
	return err_set(err, ERR_INPUT, "a pattern of the tokenizer on this text: %s",
		       (const char *)message);
}

static int search_open(struct regex_search *search, struct err *err)
{
	if (search->match)
		return 0;
	search->match = pcre2_match_data_create(1, NULL);
	search->context = pcre2_match_context_create(NULL);
	if (!search->match || !search->context)
		return err_set(err, ERR_SYSTEM, "out of memory for a pattern");
	pcre2_set_heap_limit(search->context, HEAP_LIMIT);
	return 0;
}

static int match_within(struct regex_search *search, uint32_t limit)
{
	const pcre2_code *code = search->regex->code;
	PCRE2_SPTR text = (PCRE2_SPTR)search->text;
	int rc;

	pcre2_set_match_limit(search->context, limit);
	rc = pcre2_match(code, text, search->len, search->at, PCRE2_NO_UTF_CHECK, search->match,
			 search->context);
	if (rc != PCRE2_ERROR_JIT_STACKLIMIT)
		return rc;
	/* the interpreter uses the heap */
	return pcre2_match(code, text, search->len, search->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
			   search->match, search->context);
}

/* Counts the steps of a match that was given up, and will be tried again with more. */
static int charge(struct regex_work *work, uint32_t steps, struct err *err)
{
	if (!work)
		return 0;
	work->n_steps += steps;
	if (work->n_steps <= FREE_STEPS + BYTE_STEPS * work->n_bytes)
		return 0;
	return err_set(err, ERR_INPUT,
		       "a pattern of the tokenizer takes more than %" PRIu64 " steps on %" PRIu64
		       " bytes of text: give other text, or token ids",
		       work->n_steps, work->n_bytes);
}

/* PCRE2 does not tell how many steps a match took, but stops at a limit: with a low one first, what
 * it took is known well enough.  Returns PCRE2's code; *failed: *err is set. */
static int match_next(struct regex_search *search, bool *failed, struct err *err)
{
	uint32_t limit = FIRST_LIMIT;
	int rc;

	while ((rc = match_within(search, limit)) == PCRE2_ERROR_MATCHLIMIT &&
	       limit < MATCH_LIMIT) {
		*failed = charge(search->work, limit, err) ||
			  (search->work && progress_stopped(search->work->stop, err));
		if (*failed)
			return rc;
		limit = limit > MATCH_LIMIT / LIMIT_GROWTH ? MATCH_LIMIT : limit * LIMIT_GROWTH;
	}
	return rc;
}

/* As the iterator of the onig crate: an empty match where the last match ended is skipped. */
int regex_search_next(struct regex_search *search, size_t *begin, size_t *end, struct err *err)
{
	bool failed = false;

	if (search_open(search, err))
		return -1;
	while (search->at <= search->len) {
		const PCRE2_SIZE *found = pcre2_get_ovector_pointer(search->match);
		int rc = match_next(search, &failed, err);

		if (failed)
			return -1;
		if (rc == PCRE2_ERROR_NOMATCH)
			return 0;
		if (rc < 0)
			return match_error(rc, err);
		if (found[0] != found[1] || !search->matched || found[1] != search->last) {
			search->at = search->last = found[1];
			search->matched = true;
			*begin = found[0];
			*end = found[1];
			return 1;
		}
		search->at += search->at < search->len ? utf8_size(search->text[search->at]) : 1;
	}
	return 0;
}
