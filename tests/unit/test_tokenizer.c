/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer/tokenizer.h: the golden vectors of tests/golden/tokenizer.txt (by the tokenizers
 * package), several threads with one tokenizer, and a long text.  Run from the root.
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_equal_those_of_tokenizers),
		cmocka_unit_test(threads_give_the_same_tokens),
		cmocka_unit_test(a_long_word_is_not_quadratic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
