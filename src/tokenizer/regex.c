/* SPDX-License-Identifier: Apache-2.0
 *
 * Search by PCRE2, in UTF and UCP mode, compiled to machine code where the system allows it.
 */
#include "tokenizer/regex.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "tokenizer/unicode.h"

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
	buf_release(&search->copy);
	*search = (struct regex_search){ 0 };
}

void regex_search_start(struct regex_search *search, const struct regex *regex, const char *text,
			size_t len)
{
	search->regex = regex;
	search->text = unicode_known(text, len, &search->copy);
	search->len = len;
	search->at = search->last = 0;
	search->matched = false;
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

/* As the iterator of the onig crate: an empty match where the last match ended is skipped. */
int regex_search_next(struct regex_search *search, size_t *begin, size_t *end, struct err *err)
{
	if (!search->match)
		search->match = pcre2_match_data_create(1, NULL);
	if (!search->match)
		return err_set(err, ERR_SYSTEM, "out of memory for a pattern");
	while (search->at <= search->len) {
		const PCRE2_SIZE *found = pcre2_get_ovector_pointer(search->match);
		int rc = pcre2_match(search->regex->code, (PCRE2_SPTR)search->text, search->len,
				     search->at, PCRE2_NO_UTF_CHECK, search->match, NULL);

		if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter uses the heap */
			rc = pcre2_match(search->regex->code, (PCRE2_SPTR)search->text, search->len,
					 search->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
					 search->match, NULL);
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
