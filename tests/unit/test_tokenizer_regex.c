/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer/regex.h: Oniguruma's patterns by PCRE2, and which are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tokenizer/regex.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

/* Expected: what Ruby's Oniguruma does, from its documentation. */
static void patterns_match_like_oniguruma(void **state)
{
	static const struct {
		const char *pattern, *text, *matches;
	} rows[] = {
		{ "a+", "baab", "1-3" },
		{ "", "ab", "0-0 1-1 2-2" },
		{ "b*", "abb", "0-0 1-3" },
		{ "^b|a$", "a\nb", "0-1 2-3" },
		{ ".", "a\nb", "0-1 2-3" },
		{ "(?m:.)+", "a\nb", "0-3" },
		{ "(?i:'S)", "'s'S", "0-2 2-4" },
		{ "(?i)s", "\xc5\xbf", "0-2" },
		{ "a{,2}b", "aaab", "1-4" },
		{ "x{a}", "x{a}", "0-4" },
		{ "\\h+", "zfFg9", "1-3 4-5" },
		{ "[\\h]\\H", "fg", "0-2" },
		{ "\\v", "\n\x0b", "1-2" },
		{ "\\s", "\xe1\xa0\x8e \xc2\x85", "3-4 4-6" },
		{ "\\w+", "a\xcc\x81_1\xe2\x80\xbf!", "0-8" },
		{ "\\bb", "ab b", "3-4" },
		{ "\\Bb", "ab b", "1-2" },
		{ "\\p{^L}\\P{L}", "a12", "1-3" },
		{ "\\p{Greek}\\p{Letter}", "a\xce\xb1\xce\xb2", "1-5" },
		{ "\\p{Han}", "\xf0\xb1\x8d\x90\xe3\x80\x81", "0-4" },
		{ "\\u00e9|\\x{20ac}|\\x41",
		  "\xc3\xa9\xe2\x82\xac"
		  "A",
		  "0-2 2-5 5-6" },
		{ "(?<=a)b(?!c)", "abcab", "4-5" },
		{ "\\.\\-\xc3\xa9", ".-\xc3\xa9", "0-4" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct buf pattern = { 0 }, got = { 0 };
		struct regex_search search = { 0 };
		struct regex *regex;
		struct err err = { 0 };
		size_t begin, end;

		if (regex_translate(rows[i].pattern, strlen(rows[i].pattern), &pattern, &err) ||
		    regex_new(&regex, &pattern, &err))
			fail_msg("'%s': %s", rows[i].pattern, err.message);
		buf_puts(&got, "");
		regex_search_start(&search, regex, rows[i].text, strlen(rows[i].text));
		while (regex_search_next(&search, &begin, &end, &err) > 0)
			buf_printf(&got, "%s%zu-%zu", got.len ? " " : "", begin, end);
		if (strcmp(got.data, rows[i].matches) != 0)
			fail_msg("'%s': %s, not %s", rows[i].pattern, got.data, rows[i].matches);
		regex_search_release(&search);
		regex_free(regex);
		buf_release(&pattern);
		buf_release(&got);
	}
}

static void unsupported_patterns_are_refused(void **state)
{
	static const char *const patterns[] = {
		"[a[b]]", "[a&&b]",  "[[:alpha:]]", "a{1,2}+", "a{2}?",	  "(?<n>a)", "(a)\\1",
		"\\R",	  "\\X",     "\\k<n>",	    "(?x:a)",  "a(?i)b",  "(*FAIL)", "[\\W]",
		"[]a]",	  "\\xff",   "\\u12",	    "\\pL",    "\\p{a1}", "\\p{",    "\\",
		"(?~a)",  "\\Q.\\E", "\\x{110000}", "\\012",   "[a\\bz]", "\\C",
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(patterns); i++) {
		struct buf pattern = { 0 };
		struct err err = { 0 };

		if (!regex_translate(patterns[i], strlen(patterns[i]), &pattern, &err))
			fail_msg("'%s' becomes '%s'", patterns[i], pattern.data);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_memory_equal(err.message, "unsupported ", strlen("unsupported "));
		assert_non_null(strstr(err.message, " (byte "));
		buf_release(&pattern);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_like_oniguruma),
		cmocka_unit_test(unsupported_patterns_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
