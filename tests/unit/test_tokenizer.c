/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer/tokenizer.h: the golden vectors of tests/golden/tokenizer.txt (by the tokenizers
 * package), several threads with one tokenizer, and a long text.  Run from the root.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/pool.h"
#include "tokenizer/tokenizer.h"
#include "support/folders.h"

#define FOLDER	  "tests/golden/"
#define MAX_TEXTS 256

struct golden {
	FILE *file;
	char *line;
	size_t size;
	int line_no;
	struct buf texts[MAX_TEXTS];
	size_t n_texts;
};

static bool golden_next(struct golden *golden)
{
	ssize_t n;

	do {
		n = getline(&golden->line, &golden->size, golden->file);
		golden->line_no++;
	} while (n > 0 && golden->line[0] == '#');
	if (n <= 0)
		return false;
	golden->line[n - 1] = '\0';
	return true;
}

static void add_text(struct golden *golden, const char *hex)
{
	struct buf *text = &golden->texts[golden->n_texts++];
	unsigned byte;

	assert_true(golden->n_texts < MAX_TEXTS);
	buf_puts(text, "");
	for (; *hex != '-' && *hex; hex += 2) {
		assert_int_equal(sscanf(hex, "%2x", &byte), 1);
		buf_putc(text, (char)byte);
	}
}

/* Makes the tokenizer of this name in tokenizers.txt. */
static struct tokenizer *load(const char *name)
{
	struct golden golden = { .file = fopen(FOLDER "tokenizers.txt", "r") };
	struct tokenizer *tokenizer = NULL;
	size_t n = strlen(name);
	struct err err;

	if (!golden.file)
		fail_msg("cannot open " FOLDER "tokenizers.txt (run from the root)");
	while (golden_next(&golden)) {
		struct buf json = { 0 };

		if (strncmp(golden.line, name, n) != 0 || golden.line[n] != ' ')
			continue;
		buf_puts(&json, golden.line + n + 1);
		if (tokenizer_new(&tokenizer, &json, name, &err))
			fail_msg("%s", err.message);
		buf_release(&json);
	}
	assert_non_null(tokenizer);
	fclose(golden.file);
	free(golden.line);
	return tokenizer;
}

/* Both with special tokens, as the line has them, and without. */
static void check_text(struct golden *golden, const struct tokenizer *tokenizer, const char *name,
		       const struct buf *text, size_t before, size_t after)
{
	struct token_ids with = { 0 }, without = { 0 };
	struct buf got = { 0 };
	struct err err = { 0 };

	if (tokenizer_encode(tokenizer,
			     &(struct tokenizer_text){ text->data, text->len, true, NULL }, &with,
			     &err) ||
	    tokenizer_encode(tokenizer,
			     &(struct tokenizer_text){ text->data, text->len, false, NULL },
			     &without, &err))
		fail_msg("%s: %s", name, err.message);
	token_ids_list(&got, with.ids, with.n);
	if (strcmp(got.data, golden->line) != 0)
		fail_msg(FOLDER "tokenizer.txt:%d: %s: '%s' gives\n%s, not\n%s", golden->line_no,
			 name, text->data, got.data, golden->line);
	assert_int_equal(with.n, before + without.n + after);
	if (without.n)
		assert_memory_equal(with.ids + before, without.ids, without.n * sizeof *with.ids);
	for (size_t i = 0; i < with.n; i++)
		assert_true(with.ids[i] < tokenizer_vocab_size(tokenizer));
	token_ids_release(&with);
	token_ids_release(&without);
	buf_release(&got);
}

static void check_tokenizer(struct golden *golden)
{
	char name[64];
	struct tokenizer *tokenizer;
	unsigned before, after;

	assert_int_equal(sscanf(golden->line, "tokenizer %63s %u %u", name, &before, &after), 3);
	tokenizer = load(name);
	for (size_t i = 0; i < golden->n_texts; i++) {
		assert_true(golden_next(golden));
		check_text(golden, tokenizer, name, &golden->texts[i], before, after);
	}
	tokenizer_free(tokenizer);
}

static void tokens_equal_those_of_tokenizers(void **state)
{
	struct golden golden = { .file = fopen(FOLDER "tokenizer.txt", "r") };
	size_t n_tokenizers = 0;

	(void)state;
	if (!golden.file)
		fail_msg("cannot open " FOLDER "tokenizer.txt (run from the root)");
	while (golden_next(&golden)) {
		if (!strncmp(golden.line, "text ", 5)) {
			add_text(&golden, golden.line + 5);
			continue;
		}
		check_tokenizer(&golden);
		n_tokenizers++;
	}
	assert_int_equal(n_tokenizers, 14);
	assert_true(golden.n_texts > 100);
	for (size_t i = 0; i < golden.n_texts; i++)
		buf_release(&golden.texts[i]);
	free(golden.line);
	fclose(golden.file);
}

/* Several threads, one tokenizer. */
struct shared {
	const struct tokenizer *tokenizer;
	const char *text;
	const struct token_ids *expected;
};

static int encode_shared(void *context, int worker, size_t item, struct err *err)
{
	const struct shared *shared = context;
	struct token_ids ids = { 0 };
	bool same;

	(void)worker;
	(void)item;
	if (tokenizer_encode(
		    shared->tokenizer,
		    &(struct tokenizer_text){ shared->text, strlen(shared->text), true, NULL },
		    &ids, err))
		return -1;
	same = ids.n == shared->expected->n &&
	       !memcmp(ids.ids, shared->expected->ids, ids.n * sizeof *ids.ids);
	token_ids_release(&ids);
	return same ? 0 : err_set(err, ERR_INPUT, "other ids");
}

static void threads_give_the_same_tokens(void **state)
{
	static const char text[] = "It's 2021: na\xc3\xafve caf\xc3\xa9s <|endoftext|> "
				   "\xe6\x97\xa5\xe6\x9c\xac\n\n  x";
	struct tokenizer *tokenizer = load("qwen2");
	struct token_ids expected = { 0 };
	struct shared shared = { tokenizer, text, &expected };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(
		tokenizer_encode(tokenizer,
				 &(struct tokenizer_text){ text, strlen(text), true, NULL },
				 &expected, &err),
		0);
	if (pool_run(4, 200, encode_shared, &shared, NULL, &err))
		fail_msg("%s", err.message);
	token_ids_release(&expected);
	tokenizer_free(tokenizer);
}

/* One long word: not quadratic. */
static void a_long_word_is_not_quadratic(void **state)
{
	struct tokenizer *tokenizer = load("llama2");
	struct token_ids ids = { 0 };
	struct buf text = { 0 };
	struct err err = { 0 };

	(void)state;
	for (int i = 0; i < 1000000; i++)
		buf_puts(&text, "the");
	assert_int_equal(
		tokenizer_encode(tokenizer,
				 &(struct tokenizer_text){ text.data, text.len, false, NULL }, &ids,
				 &err),
		0);
	assert_true(ids.n >= 1000000);
	token_ids_release(&ids);
	buf_release(&text);
	tokenizer_free(tokenizer);
}

/* --- tokenizer limits --- */

/* The time and the memory that a hostile tokenizer.json may take of a text, and components that
 * this program and the tokenizers package read differently, which are refused. */

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
		cmocka_unit_test(tokens_equal_those_of_tokenizers),
		cmocka_unit_test(threads_give_the_same_tokens),
		cmocka_unit_test(a_long_word_is_not_quadratic),
		cmocka_unit_test(the_work_of_all_matches_is_bounded),
		cmocka_unit_test(a_signal_ends_a_search),
		cmocka_unit_test(steps_are_stopped_before_the_memory_is_there),
		cmocka_unit_test(what_the_package_reads_differently_is_refused),
		cmocka_unit_test(replacements_of_nothing_are_refused),
		cmocka_unit_test(long_members_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
