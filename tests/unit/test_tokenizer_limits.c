/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer/tokenizer.h: the time and the memory that a hostile tokenizer.json may take of a text,
 * and components that this program and the tokenizers package read differently, which are refused.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tokenizer/tokenizer.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))
#define MODEL                                                               \
	"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":2}," \
	"\"merges\":[]}"

static int make(struct tokenizer **tokenizer, const char *more, struct err *err)
{
	struct buf json = { 0 };
	int rc;

	buf_printf(&json, MODEL ",%s}", more);
	rc = tokenizer_new(tokenizer, &json, "t.json", err);
	buf_release(&json);
	return rc;
}

static int encode(const struct tokenizer *tokenizer, const struct buf *text,
		  struct regex_work *patterns, struct err *err)
{
	const struct tokenizer_text whole = { text->data, text->len, true, patterns };
	struct token_ids ids = { 0 };
	int rc = tokenizer_encode(tokenizer, &whole, &ids, err);

	token_ids_release(&ids);
	return rc;
}

/* A group of n letters without a 'b' costs (a|aa)+b as many steps as there are sums of 1 and 2 that
 * give n or less: Fibonacci's numbers, 1.6 times as many for each letter. */
static void add_groups(struct buf *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_puts(text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaa ");
}

static const char slow[] = "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
			   "\"(a|aa)+b|a| \"},\"behavior\":\"Isolated\",\"invert\":false}";

/* Matches that each stay below the limit of one match, in one text and in many. */
static void the_work_of_all_matches_is_bounded(void **state)
{
	struct regex_work patterns = { 0 };
	struct buf many = { 0 }, few = { 0 };
	struct tokenizer *tokenizer;
	struct err err = { 0 };
	size_t n = 0;

	(void)state;
	assert_int_equal(make(&tokenizer, slow, &err), 0);
	add_groups(&many, 2000);
	add_groups(&few, 2);
	assert_int_equal(encode(tokenizer, &many, NULL, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_non_null(strstr(err.message, "a pattern of the tokenizer takes more than"));
	err = (struct err){ 0 };
	assert_int_equal(encode(tokenizer, &few, NULL, &err), 0);
	while (n < 1000 && !encode(tokenizer, &few, &patterns, &err))
		n++;
	assert_in_range(n, 1, 999);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_in_range(patterns.n_bytes, few.len, 1000 * few.len);
	tokenizer_free(tokenizer);
	buf_release(&many);
	buf_release(&few);
}

static void a_signal_ends_a_search(void **state)
{
	atomic_int stop = SIGTERM;
	struct regex_work patterns = { .stop = &stop };
	struct buf text = { 0 };
	struct tokenizer *tokenizer;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(make(&tokenizer, slow, &err), 0);
	add_groups(&text, 1);
	assert_int_equal(encode(tokenizer, &text, &patterns, &err), -1);
	assert_int_equal(err.kind, ERR_INTERRUPTED);
	tokenizer_free(tokenizer);
	buf_release(&text);
}

/* KiB; the memory of the process never shrinks. */
static long peak(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

/* Each would make gigabytes of 10 kB; what is there before the refusal is less than 64 MiB. */
static void steps_are_stopped_before_the_memory_is_there(void **state)
{
	static const char *const formats[] = {
		"\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
		"\"%s\"}",
		"\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":"
		"\"%s\"}",
		"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
		"\"prepend\":\"%s\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},"
		"\"content\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]}",
	};
	struct buf text = { 0 };
	char *content = xmalloc(1000001);

	(void)state;
	memset(content, 'b', 1000000);
	content[1000000] = '\0';
	while (text.len < 10000)
		buf_putc(&text, 'a');
	for (size_t i = 0; i < N_ROWS(formats); i++) {
		char *more = xasprintf(formats[i], content);
		long before = peak();
		struct tokenizer *tokenizer;
		struct err err = { 0 };

		assert_int_equal(make(&tokenizer, more, &err), 0);
		assert_int_equal(encode(tokenizer, &text, NULL, &err), -1);
		assert_string_equal(
			err.message,
			"the steps of the tokenizer produce more than 256 times the text");
		assert_true(peak() - before < 64 << 10);
		tokenizer_free(tokenizer);
		free(more);
	}
	free(content);
	buf_release(&text);
}

#define TOKEN(content, lstrip, rstrip)                                                             \
	"\"added_tokens\":[{\"id\":3,\"content\":\"" content "\",\"single_word\":false,\"lstrip\"" \
	":" lstrip ",\"rstrip\":" rstrip ",\"normalized\":true,\"special\":true}]"

/* Components of no released tokenizer, for which the tokenizers package 0.23 gives other ids; and a
 * normalizer that makes megabytes of a token's name. */
static void what_the_package_reads_differently_is_refused(void **state)
{
	static const struct {
		const char *more, *message;
	} rows[] = {
		{ "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\"}",
		  "'t.json': normalizer has an empty 'prepend', which is unsupported" },
		{ TOKEN(" ", "true", "true"),
		  "'t.json': added_tokens[0] is white space with lstrip and rstrip, which is "
		  "unsupported" },
		{ TOKEN("\\n \\u3000", "true", "true"),
		  "'t.json': added_tokens[0] is white space with lstrip and rstrip, which is "
		  "unsupported" },
		{ TOKEN(" ", "true", "false"), NULL },
		{ TOKEN(" x ", "true", "true"), NULL },
		{ TOKEN("aa", "true", "true") ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{"
					      "\"String\":\"a\"},\"content\":"
					      "\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}",
		  "'t.json': the steps of the tokenizer produce more than 256 times the text" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct tokenizer *tokenizer = NULL;
		struct err err = { 0 };
		int rc = make(&tokenizer, rows[i].more, &err);

		if (rc != (rows[i].message ? -1 : 0) ||
		    (rc && strcmp(err.message, rows[i].message) != 0))
			fail_msg("row %zu: %s", i, err.message);
		tokenizer_free(tokenizer);
	}
}

static void replacements_of_nothing_are_refused(void **state)
{
	static const char *const patterns[] = { "",    "^",	"$",	  "b*",
						"b??", "(?=a)", "(?<=a)", "\\\\b" };
	struct buf text = { 0 };

	(void)state;
	buf_puts(&text, "a ab");
	for (size_t i = 0; i < N_ROWS(patterns); i++) {
		char *more = xasprintf("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{"
				       "\"Regex\":\"%s\"},\"content\":\"b\"}",
				       patterns[i]);
		struct tokenizer *tokenizer;
		struct err err = { 0 };

		if (make(&tokenizer, more, &err) || !encode(tokenizer, &text, NULL, &err) ||
		    !strstr(err.message, "matches an empty text"))
			fail_msg("'%s': %s", patterns[i], err.message);
		tokenizer_free(tokenizer);
		free(more);
	}
	buf_release(&text);
}

/* A tree of JSON takes thirty times its text: long members are refused before. */
static void long_members_are_refused(void **state)
{
	struct buf more = { 0 };
	struct tokenizer *tokenizer;
	struct err err = { 0 };
	long before = peak();

	(void)state;
	buf_puts(&more, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[0");
	while (more.len < 8 << 20)
		buf_puts(&more, ",0");
	buf_puts(&more, "]}");
	assert_int_equal(make(&tokenizer, more.data, &err), -1);
	assert_non_null(strstr(err.message, "member 'post_processor' is"));
	assert_int_equal(err.kind, ERR_INPUT);
	assert_true(peak() - before < 64 << 10);
	buf_release(&more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_work_of_all_matches_is_bounded),
		cmocka_unit_test(a_signal_ends_a_search),
		cmocka_unit_test(steps_are_stopped_before_the_memory_is_there),
		cmocka_unit_test(what_the_package_reads_differently_is_refused),
		cmocka_unit_test(replacements_of_nothing_are_refused),
		cmocka_unit_test(long_members_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
