/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer/tokenizer.h with small tokenizers, written here: what each member of the file does,
 * what is refused, and what a text may not do.
 * tokenizer/regex.h: Oniguruma's patterns by PCRE2, and which are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "support/folders.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

/* {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, ... "ca": 7} MORE: more closes both. */
#define MODEL(more)                                                                              \
	"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\" " \
	"\":5,\"bc\":6,\"ca\":7}" more
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
	/* what has no token disappears, and its neighbors meet, unless there is one for it */
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
	{ MODEL(MERGES ",\"truncation\":{\"max_length\":1},\"padding\":{\"length\":9}}"), "aa",
	  "0 0" },
	/* an old Metaspace */
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"c\","
		       "\"add_prefix_space\":true}}"),
	  "a a", "2 0 2 0" },
	/* delimiters: every behavior, by pieces that no merge crosses */
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		       "\"behavior\":\"Removed\",\"invert\":false}}"),
	  "abbca", "0 2 0" },
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		       "\"behavior\":\"Removed\",\"invert\":true}}"),
	  "abbca", "1 1" },
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		       "\"behavior\":\"Isolated\",\"invert\":false}}"),
	  "abbc", "0 1 1 2" },
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		       "\"behavior\":\"MergedWithPrevious\",\"invert\":false}}"),
	  "abbc", "3 1 2" },
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		       "\"behavior\":\"MergedWithNext\",\"invert\":false}}"),
	  "abbc", "0 1 6" },
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
		       "\"behavior\":\"Contiguous\",\"invert\":false}}"),
	  "abbc", "0 1 1 2" },
};

static void small_tokenizers_give_known_tokens(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ROWS(small_rows); i++) {
		struct tokenizer *tokenizer;
		struct token_ids ids = { 0 };
		struct buf got = { 0 };
		struct err err = { 0 };

		if (make(&tokenizer, small_rows[i].json, &err) ||
		    tokenizer_encode(tokenizer,
				     &(struct tokenizer_text){ small_rows[i].text,
							       strlen(small_rows[i].text), true,
							       NULL },
				     &ids, &err))
			fail_msg("row %zu: %s", i, err.message);
		token_ids_list(&got, ids.ids, ids.n);
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
	{ "{}", "'t.json': missing member 'model'" },
	{ "{\"model\":{}}", "'t.json': model: missing member 'vocab'" },
	{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}",
	  "'t.json': model: type 'Unigram' is not supported (supported: BPE)" },
	{ MODEL("}}"), "'t.json': model: missing member 'merges'" },
	{ MODEL(",\"dropout\":0.1" MERGES "}"), "'t.json': model: dropout is not supported" },
	{ MODEL(",\"end_of_word_suffix\":\"</w>\"" MERGES "}"),
	  "'t.json': model: 'end_of_word_suffix' is not supported" },
	{ MODEL(",\"merges\":[[\"b\",\"x\"]]}}"),
	  "'t.json': model: merges: merge 0: token 'x' is not in the vocab" },
	{ MODEL(",\"merges\":[\"a b\",\"c b\"]}}"),
	  "'t.json': model: merges: merge 1: token 'cb' is not in the vocab" },
	{ MODEL(",\"merges\":[\"a b c\"]}}"),
	  "'t.json': model: merges: merge 0, 'a b c', is not two tokens with a space between" },
	{ MODEL(",\"merges\":[\"a b\",[\"b\",\"c\"]]}}"),
	  "'t.json': model: merges: merge 1 is not of the form of the other merges "
	  "(\"a b\" or [\"a\", \"b\"])" },
	{ MODEL(",\"merges\":[[\"b\",\"c\" \"a\"]]}}"),
	  "'t.json': model: merges: merge 0 is not a pair of strings" },
	{ MODEL(",\"merges\":[\"a b\" \"b c\"]}}"),
	  "'t.json': model: merges: missing comma before merge 1" },
	{ "{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}",
	  "'t.json': model: vocab: duplicate token 'a'" },
	{ "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}",
	  "'t.json': model: vocab: token 'a' has an id that is not from 0 to 67108863" },
	{ MODEL(MERGES ",\"normalizer\":{\"type\":\"Precompiled\"}}"),
	  "'t.json': normalizer has unsupported type 'Precompiled'" },
	{ MODEL(MERGES ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":"
		       "[{\"type\":\"ByteLevel\","
		       "\"add_prefix_space\":false},{\"type\":\"BertPreTokenizer\"}]}}"),
	  "'t.json': pre_tokenizer[1] has unsupported type 'BertPreTokenizer'" },
	{ MODEL(MERGES
		",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\",\"invert\":false,"
		"\"pattern\":{\"Regex\":\"a(\"}}}"),
	  "'t.json': pattern 'a(' of pre_tokenizer: missing closing parenthesis" },
	{ MODEL(MERGES ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":"
		       "[{\"SpecialToken\":"
		       "{\"id\":\"<s>\"}}],\"special_tokens\":{}}}"),
	  "'t.json': post_processor has no special_tokens for '<s>'" },
	{ MODEL(MERGES ",\"added_tokens\":[{\"id\":0}]}"),
	  "'t.json': added_tokens[0] has no string 'content'" },
	{ MODEL(MERGES ",\"normalizer\":null,\"normalizer\":null}"),
	  "'t.json': duplicate member 'normalizer'" },
};

static void unsupported_tokenizers_are_refused(void **state)
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
static void steps_that_grow_the_text_are_stopped(void **state)
{
	struct buf json = { 0 };
	struct tokenizer *tokenizer;
	struct token_ids ids = { 0 };
	struct err err = { 0 };

	(void)state;
	buf_puts(&json, MODEL(MERGES ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["));
	for (int i = 0; i < 40; i++)
		buf_printf(&json,
			   "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
			   "\"aa\"}",
			   i ? "," : "");
	buf_puts(&json, "]}}");
	assert_int_equal(make(&tokenizer, json.data, &err), 0);
	assert_int_equal(tokenizer_encode(tokenizer,
					  &(struct tokenizer_text){ "aaaa", 4, true, NULL }, &ids,
					  &err),
			 -1);
	assert_string_equal(err.message,
			    "the steps of the tokenizer produce more than 256 times the text");
	token_ids_release(&ids);
	tokenizer_free(tokenizer);
	buf_release(&json);
}

static void a_character_without_token_is_refused(void **state)
{
	struct tokenizer *tokenizer;
	struct token_ids ids = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(make(&tokenizer, MODEL(",\"unk_token\":\"?\"" MERGES "}"), &err), 0);
	assert_int_equal(tokenizer_encode(tokenizer,
					  &(struct tokenizer_text){ "ab", 2, true, NULL }, &ids,
					  &err),
			 0);
	assert_int_equal(tokenizer_encode(tokenizer, &(struct tokenizer_text){ "x", 1, true, NULL },
					  &ids, &err),
			 -1);
	assert_string_equal(
		err.message,
		"character U+0078 has no token, and unk_token '?' is not a token either");
	token_ids_release(&ids);
	tokenizer_free(tokenizer);
}

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
		cmocka_unit_test(small_tokenizers_give_known_tokens),
		cmocka_unit_test(unsupported_tokenizers_are_refused),
		cmocka_unit_test(steps_that_grow_the_text_are_stopped),
		cmocka_unit_test(a_character_without_token_is_refused),
		cmocka_unit_test(patterns_match_like_oniguruma),
		cmocka_unit_test(unsupported_patterns_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
