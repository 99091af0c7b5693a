/* SPDX-License-Identifier: Apache-2.0
 *
 * model/tokenizer.h: the golden vectors of tests/golden/tokenizer.txt (by the tokenizers package),
 * characters against Unicode, and what is refused.  Run from the root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/pool.h"
#include "model/tokenizer.h"
#include "model/tokenizer_regex.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))
#define FOLDER	     "tests/golden/"
#define MAX_TEXTS    256

/* --- golden vectors --- */

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

static struct tokenizer *load(const char *path)
{
	struct tokenizer *tokenizer = NULL;
	struct buf json = { 0 };
	struct err err = { 0 };

	if (io_read_file(&io_system, AT_FDCWD, path, 1 << 24, &json, &err) ||
	    tokenizer_new(&tokenizer, &json, path, &err))
		fail_msg("%s", err.message);
	buf_release(&json);
	return tokenizer;
}

static void list_ids(struct buf *out, const uint32_t *ids, size_t n)
{
	out->len = 0;
	buf_puts(out, n ? "" : "-");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, i ? " %u" : "%u", ids[i]);
}

/* Both with special tokens, as the line has them, and without. */
static void check_text(struct golden *golden, const struct tokenizer *tokenizer, const char *name,
		       const struct buf *text, size_t before, size_t after)
{
	struct token_ids with = { 0 }, without = { 0 };
	struct buf got = { 0 };
	struct err err = { 0 };

	if (tokenizer_encode(tokenizer, text->data, text->len, true, &with, &err) ||
	    tokenizer_encode(tokenizer, text->data, text->len, false, &without, &err))
		fail_msg("%s: %s", name, err.message);
	list_ids(&got, with.ids, with.n);
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
	char name[64], path[128];
	struct tokenizer *tokenizer;
	unsigned before, after;

	assert_int_equal(sscanf(golden->line, "tokenizer %63s %u %u", name, &before, &after), 3);
	snprintf(path, sizeof path, FOLDER "tokenizers/%s.json", name);
	tokenizer = load(path);
	for (size_t i = 0; i < golden->n_texts; i++) {
		assert_true(golden_next(golden));
		check_text(golden, tokenizer, name, &golden->texts[i], before, after);
	}
	tokenizer_free(tokenizer);
}

static void test_golden(void **state)
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

/* --- small tokenizers, written here --- */

/* {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, ... "ca": 7},
 * ...}}, MORE */
#define MODEL(more) \
	"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\" \":5,\"bc\":6,\"ca\":7}" more
#define MERGES ",\"merges\":[[\"b\",\"c\"],[\"a\",\"b\"],[\"a\",\"bc\"]]}"

static int make(struct tokenizer **tokenizer, const char *text, struct err *err)
{
	struct buf json = { 0 };
	int rc;

	buf_puts(&json, text);
	rc = tokenizer_new(tokenizer, &json, "t.json", err);
	buf_release(&json);
	return rc;
}

static const struct {
	const char *json, *text, *ids;
} small_rows[] = {
	{ MODEL(MERGES "}"), "abcab", "4 3" },
	/* the merge of b and c comes first; without it that of a and b */
	{ MODEL(",\"merges\":[\"a b\",\"b c\"]}}"), "abc", "3 2" },
	{ MODEL(",\"merges\":[\"#version: 0.2\",\"b c\",\"a b\"]}}"), "abc", "0 6" },
	/* of two merges of one pair the last counts */
	{ MODEL(",\"merges\":[\"a b\",\"b c\",\"a b\"]}}"), "abc", "0 6" },
	/* a long run, in which merges that were possible no longer are */
	{ MODEL(",\"merges\":[\"b c\",\"a b\",\"a bc\",\"c a\"]}}"),
	  "abcabcabcabcabcabcabcabcabcabcabcabcabc", "4 4 4 4 4 4 4 4 4 4 4 4 4" },
	{ MODEL(",\"merges\":[]}}"), "abc", "0 1 2" },
	{ MODEL(",\"ignore_merges\":true,\"merges\":[]}}"), "abc", "4" },
	/* what has no token disappears, and its neighbours meet, unless there is one for it
	 */
	{ MODEL(MERGES "}"), "axb", "3" },
	{ MODEL(",\"unk_token\":\"c\"" MERGES "}"), "axxb", "0 2 2 1" },
	{ MODEL(",\"unk_token\":\"c\",\"fuse_unk\":true" MERGES "}"), "axxb", "0 2 1" },
	/* a token that is not in the vocabulary has the next id, whatever the file says */
	{ MODEL(MERGES
		",\"added_tokens\":[{\"id\":99,\"content\":\"<x>\",\"single_word\":false,"
		"\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}]}"),
	  "a<x>b", "0 8 1" },
	/* one that begins in the white space that the one before it stripped */
	{ MODEL(MERGES
		",\"added_tokens\":[{\"id\":8,\"content\":\"<x>\",\"rstrip\":true,"
		"\"single_word\":false,\"lstrip\":false,\"normalized\":false,\"special\":true},"
		"{\"id\":9,\"content\":\"  \",\"rstrip\":false,"
		"\"single_word\":false,\"lstrip\":false,\"normalized\":false,\"special\":true}]}"),
	  "<x>  a", "8 9 0" },
	/* truncation and padding are not applied */
	{ MODEL(MERGES ",\"truncation\":{\"max_length\":1},\"padding\":{\"length\":9}}"),
	  "aa", "0 0" },
	/* an old Metaspace */
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"c\","
		       "\"add_prefix_space\":true}}"),
	  "a a", "2 0 2 0" },
	/* delimiters: every behavior, by pieces that no merge crosses */
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		"\"behavior\":\"Removed\",\"invert\":false}}"),
	  "abbca", "0 2 0" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		"\"behavior\":\"Removed\",\"invert\":true}}"),
	  "abbca", "1 1" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		"\"behavior\":\"Isolated\",\"invert\":false}}"),
	  "abbc", "0 1 1 2" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		"\"behavior\":\"MergedWithPrevious\",\"invert\":false}}"),
	  "abbc", "3 1 2" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		"\"behavior\":\"MergedWithNext\",\"invert\":false}}"),
	  "abbc", "0 1 6" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		"\"behavior\":\"Contiguous\",\"invert\":false}}"),
	  "abbc", "0 1 1 2" },
};

static void test_small(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ROWS(small_rows); i++) {
		struct tokenizer *tokenizer;
		struct token_ids ids = { 0 };
		struct buf got = { 0 };
		struct err err = { 0 };

		if (make(&tokenizer, small_rows[i].json, &err) ||
		    tokenizer_encode(tokenizer, small_rows[i].text, strlen(small_rows[i].text), true, &ids,
				     &err))
			fail_msg("row %zu: %s", i, err.message);
		list_ids(&got, ids.ids, ids.n);
		if (strcmp(got.data, small_rows[i].ids) != 0)
			fail_msg("row %zu: %s, not %s", i, got.data, small_rows[i].ids);
		buf_release(&got);
		token_ids_release(&ids);
		tokenizer_free(tokenizer);
	}
}

static const struct {
	const char *json, *message;
} refused_rows[] = {
	{ "", "'t.json': bad JSON at byte 0: expected '{'" },
	{ "{}", "'t.json': there is no 'model'" },
	{ "{\"model\":{}}", "'t.json': model: it has no 'vocab'" },
	{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}",
	  "'t.json': model: it has type 'Unigram', and only 'BPE' is supported" },
	{ MODEL("}}"), "'t.json': model: it has no 'merges'" },
	{ MODEL(",\"dropout\":0.1" MERGES "}"),
	  "'t.json': model: it has a dropout, which makes tokens random" },
	{ MODEL(",\"end_of_word_suffix\":\"</w>\"" MERGES "}"),
	  "'t.json': model: it has a 'end_of_word_suffix', which is not supported" },
	{ MODEL(",\"merges\":[[\"b\",\"x\"]]}}"),
	  "'t.json': model: merges: merge 0: token 'x' is not in the vocab" },
	{ MODEL(",\"merges\":[\"a b\",\"c b\"]}}"),
	  "'t.json': model: merges: merge 1: token 'cb' is not in the vocab" },
	{ MODEL(",\"merges\":[\"a b c\"]}}"),
	  "'t.json': model: merges: merge 0, 'a b c', is not two tokens with a space between" },
	{ MODEL(",\"merges\":[\"a b\",[\"b\",\"c\"]]}}"),
	  "'t.json': model: merges: merge 1 is neither \"a b\" nor [\"a\", \"b\"] as the others" },
	{ MODEL(",\"merges\":[[\"b\",\"c\" \"a\"]]}}"),
	  "'t.json': model: merges: merge 0 is not a pair of strings" },
	{ MODEL(",\"merges\":[\"a b\" \"b c\"]}}"),
	  "'t.json': model: merges: there is no comma before merge 1" },
	{ "{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}",
	  "'t.json': model: vocab: token 'a' stands there twice" },
	{ "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}",
	  "'t.json': model: vocab: token 'a' has an id that is not from 0 to 67108863" },
	{ MODEL(MERGES ",\"normalizer\":{\"type\":\"Precompiled\"}}"),
	  "'t.json': normalizer has type 'Precompiled', which is not supported" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\","
		"\"add_prefix_space\":false},{\"type\":\"BertPreTokenizer\"}]}}"),
	  "'t.json': pre_tokenizer[1] has type 'BertPreTokenizer', which is not supported" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\",\"invert\":false,"
		"\"pattern\":{\"Regex\":\"a(\"}}}"),
	  "'t.json': pattern 'a(' of pre_tokenizer: missing closing parenthesis" },
	{ MODEL(MERGES
		",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
		"{\"id\":\"<s>\"}}],\"special_tokens\":{}}}"),
	  "'t.json': post_processor has no special_tokens for '<s>'" },
	{ MODEL(MERGES ",\"added_tokens\":[{\"id\":0}]}"),
	  "'t.json': added_tokens[0] has no 'content' that is a string" },
	{ MODEL(MERGES ",\"normalizer\":null,\"normalizer\":null}"),
	  "'t.json': 'normalizer' stands there twice" },
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ROWS(refused_rows); i++) {
		struct tokenizer *tokenizer;
		struct err err = { 0 };

		if (!make(&tokenizer, refused_rows[i].json, &err))
			fail_msg("row %zu is taken", i);
		assert_null(tokenizer);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_string_equal(err.message, refused_rows[i].message);
	}
}

/* Steps that double the text at each turn end with an error, not with the memory. */
static void test_growth(void **state)
{
	struct buf json = { 0 };
	struct tokenizer *tokenizer;
	struct token_ids ids = { 0 };
	struct err err = { 0 };

	(void)state;
	buf_puts(&json, MODEL(MERGES ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["));
	for (int i = 0; i < 40; i++)
		buf_printf(
			&json,
			"%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}",
			i ? "," : "");
	buf_puts(&json, "]}}");
	assert_int_equal(make(&tokenizer, json.data, &err), 0);
	assert_int_equal(tokenizer_encode(tokenizer, "aaaa", 4, true, &ids, &err), -1);
	assert_string_equal(err.message,
			    "the steps of the tokenizer make more than 256 times the text of it");
	token_ids_release(&ids);
	tokenizer_free(tokenizer);
	buf_release(&json);
}

static void test_unknown_character(void **state)
{
	struct tokenizer *tokenizer;
	struct token_ids ids = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(make(&tokenizer, MODEL(",\"unk_token\":\"?\"" MERGES "}"), &err), 0);
	assert_int_equal(tokenizer_encode(tokenizer, "ab", 2, true, &ids, &err), 0);
	assert_int_equal(tokenizer_encode(tokenizer, "x", 1, true, &ids, &err), -1);
	assert_string_equal(err.message,
			    "character U+0078 has no token, and unk_token '?' is none either");
	token_ids_release(&ids);
	tokenizer_free(tokenizer);
}

/* --- patterns --- */

/* Expected: what Ruby's Oniguruma does, from its documentation. */
static void test_patterns(void **state)
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

static void test_refused_patterns(void **state)
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
		assert_non_null(strstr(err.message, "is not supported (byte"));
		buf_release(&pattern);
	}
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
	if (tokenizer_encode(shared->tokenizer, shared->text, strlen(shared->text), true, &ids,
			     err))
		return -1;
	same = ids.n == shared->expected->n &&
	       !memcmp(ids.ids, shared->expected->ids, ids.n * sizeof *ids.ids);
	token_ids_release(&ids);
	return same ? 0 : err_set(err, ERR_INPUT, "other ids");
}

static void test_threads(void **state)
{
	static const char text[] =
		"It's 2021: na\xc3\xafve caf\xc3\xa9s <|endoftext|> \xe6\x97\xa5\xe6\x9c\xac\n\n  x";
	struct tokenizer *tokenizer = load(FOLDER "tokenizers/qwen2.json");
	struct token_ids expected = { 0 };
	struct shared shared = { tokenizer, text, &expected };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), true, &expected, &err), 0);
	if (pool_run(4, 200, encode_shared, &shared, NULL, &err))
		fail_msg("%s", err.message);
	token_ids_release(&expected);
	tokenizer_free(tokenizer);
}

/* One long word: not quadratic. */
static void test_long_word(void **state)
{
	struct tokenizer *tokenizer = load(FOLDER "tokenizers/llama2.json");
	struct token_ids ids = { 0 };
	struct buf text = { 0 };
	struct err err = { 0 };

	(void)state;
	for (int i = 0; i < 1000000; i++)
		buf_puts(&text, "the");
	assert_int_equal(tokenizer_encode(tokenizer, text.data, text.len, false, &ids, &err), 0);
	assert_true(ids.n >= 1000000);
	token_ids_release(&ids);
	buf_release(&text);
	tokenizer_free(tokenizer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_unknown_character),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_refused_patterns),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_long_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
