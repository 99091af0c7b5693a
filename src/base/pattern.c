/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

int pattern_compile(struct pattern *pattern, const char *option, const char *text, struct err *err)
{
	PCRE2_UCHAR message[256];
	PCRE2_SIZE offset;
	pcre2_code *code;
	int error;

	code = pcre2_compile((PCRE2_SPTR)text, strlen(text), 0, &error, &offset, NULL);
	if (!code) {
		pcre2_get_error_message(error, message, sizeof message);
		return err_set(err, ERR_USAGE, "%s '%s': %s at character %zu%s", option, text,
			       (const char *)message, (size_t)offset + 1,
			       *text == '*' ? " (a pattern is a regular expression: '.*' matches "
					      "any text)"
					    : "");
	}
	/* Fails where memory may not be executable; then PCRE2 interprets the pattern. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	*pattern = (struct pattern){
		.option = option,
		.text = text,
		.code = code,
		.match = pcre2_match_data_create_from_pattern(code, NULL),
	};
	return 0;
}

int pattern_match(const struct pattern *pattern, const char *name, bool *matches, struct err *err)
{
	PCRE2_UCHAR message[256];
	int rc;

	rc = pcre2_match(pattern->code, (PCRE2_SPTR)name, strlen(name), 0, 0, pattern->match, NULL);
	*matches = rc >= 0;
	if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
		return 0;
	pcre2_get_error_message(rc, message, sizeof message);
	return err_set(err, ERR_USAGE, "%s '%s' on tensor '%s': %s", pattern->option, pattern->text,
		       name, (const char *)message);
}

void pattern_release(struct pattern *pattern)
{
	pcre2_match_data_free(pattern->match);
	pcre2_code_free(pattern->code);
	*pattern = (struct pattern){ 0 };
}
