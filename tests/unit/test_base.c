/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of an arena are aligned, do not overlap and stay as they were written.
 * base/pool.h: which of several failures is told.
 * sort() against what a sorted array is: in order, equals as they stood, all of them there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"
#include "base/words.h"

#define N_PIECES 5000

/* Sizes around the alignment, and some that are larger than a block. */
static size_t size_of(size_t i)
{
	return i % 997 == 5 ? 100000 + i : i % 41;
}

static void pieces_are_aligned_and_apart(void **state)
{
	struct arena arena = { 0 };
	unsigned char *pieces[N_PIECES];
	char *texts[N_PIECES];

	(void)state;
	for (size_t i = 0; i < N_PIECES; i++) {
		pieces[i] = arena_alloc(&arena, size_of(i));
		assert_int_equal((uintptr_t)pieces[i] % _Alignof(uint64_t), 0);
		memset(pieces[i], (int)(i % 251), size_of(i));
		texts[i] = arena_text(&arena, "model.layers.0", i % 15);
	}
	for (size_t i = 0; i < N_PIECES; i++)
		for (size_t k = 0; k < size_of(i); k++)
			assert_int_equal(pieces[i][k], i % 251);
	for (size_t i = 0; i < N_PIECES; i++) {
		assert_int_equal(strlen(texts[i]), i % 15);
		assert_memory_equal(texts[i], "model.layers.0", i % 15);
	}
	arena_release(&arena);
	assert_null(arena.blocks);
	assert_non_null(arena_alloc(&arena, 0)); /* empty again, it can be used again */
	arena_release(&arena);
}

static void texts_are_copied_or_taken(void **state)
{
	struct arena arena = { 0 };
	char *first = arena_text(&arena, "lm_head.weight", 7);
	char *second = arena_take(&arena, xstrdup("lm_head.bias"));
	char *none = arena_text(&arena, "", 0);

	(void)state;
	assert_string_equal(first, "lm_head");
	assert_string_equal(second, "lm_head.bias");
	assert_string_equal(none, "");
	arena_release(&arena);
}

/* Two items, of two threads, that fail when both have begun: the second before the first. */
struct both {
	atomic_int n_begun, n_failed;
	bool follows[2]; /* by item */
};

static int fail_in_order(void *context, int worker, size_t item, struct err *err)
{
	struct both *both = context;

	(void)worker;
	atomic_fetch_add(&both->n_begun, 1);
	while (atomic_load(&both->n_begun) < 2 || (item == 0 && atomic_load(&both->n_failed) == 0))
		;
	err_set(err, ERR_SYSTEM, "item %zu", item);
	err->follows = both->follows[item];
	atomic_fetch_add(&both->n_failed, 1);
	return -1;
}

static void told(const bool follows[2], const char *message)
{
	struct both both = { .follows = { follows[0], follows[1] } };
	struct err err = { 0 };

	assert_int_equal(pool_run(2, 2, fail_in_order, &both, NULL, &err), -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_string_equal(err.message, message);
}

static void the_lowest_item_is_told(void **state)
{
	(void)state;
	told((bool[]){ false, false }, "item 0");
	told((bool[]){ true, true }, "item 0");
}

static void a_cause_is_told_before_what_follows_from_it(void **state)
{
	(void)state;
	told((bool[]){ true, false }, "item 1");
	told((bool[]){ false, true }, "item 0");
}

/* A prefix keeps it; the next failure does not. */
static void what_follows_is_known_until_the_next_failure(void **state)
{
	struct err err = { 0 };

	(void)state;
	err_set(&err, ERR_SYSTEM, "a call");
	err.follows = true;
	err_wrap(&err, "layer %d", 3);
	assert_string_equal(err.message, "layer 3: a call");
	assert_true(err.follows);
	err_set(&err, ERR_SYSTEM, "another");
	assert_false(err.follows);
}

static void the_nearest_word_is_suggested(void **state)
{
	static const char *const names[] = { "blockwise",   "mxfp8", "delayed", "current",
					     "channelwise", "avx2",  "avx512",	NULL };
	static const struct {
		const char *wanted, *found;
	} rows[] = {
		{ "blockwise", "blockwise" },
		{ "blokwise", "blockwise" },
		{ "mxpf8", "mxfp8" },
		{ "mxfp4", "mxfp8" },
		{ "chanelwise", "channelwise" },
		{ "avx51", "avx512" },
		{ "avx1", "avx2" },
		{ "banana", NULL },
		{ "", NULL },
		{ "x", NULL },
		{ "wiseblock", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *found = words_nearest(rows[i].wanted, names);

		if (rows[i].found)
			assert_string_equal(found ? found : "(none)", rows[i].found);
		else
			assert_null(found);
	}
}

/* The table has room for 63 letters; longer names are simply not near. */
static void long_names_are_not_near(void **state)
{
	static const char long_name[] =
		"0123456789012345678901234567890123456789012345678901234567890123456789";
	const char *const names[] = { long_name, long_name + 7, NULL };

	(void)state;
	assert_null(words_nearest(long_name, names));
	assert_ptr_equal(words_nearest(long_name + 8, names), names[1]);
	assert_null(words_nearest("short", names));
}

static void words_have_the_order_of_their_enum(void **state)
{
	static const char words[] = "te|deepseek|deepgemm";
	char word[WORD_SIZE];

	(void)state;
	assert_int_equal(words_find(words, "te"), 0);
	assert_int_equal(words_find(words, "deepgemm"), 2);
	assert_int_equal(words_find(words, "deep"), -1);
	assert_int_equal(words_find(words, "te|deepseek"), -1);
	assert_int_equal(words_find(words, ""), -1);
	assert_int_equal(words_find(words, NULL), -1);
	assert_int_equal(words_find("", ""), -1);
	assert_int_equal(words_find("", "te"), -1);
	assert_string_equal(words_get(words, 0, word), "te");
	assert_string_equal(words_get(words, 1, word), "deepseek");
	assert_string_equal(words_get(words, 2, word), "deepgemm");
}

struct element {
	uint64_t key;
	uint64_t place; /* before sorting */
};

static size_t n_compared;

static int compare(const void *a, const void *b)
{
	const struct element *x = a, *y = b;

	n_compared++;
	return x->key < y->key ? -7 : x->key > y->key ? 7 : 0;
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

static void check(struct element *elements, size_t n)
{
	bool *seen = xcalloc(n, sizeof *seen);

	for (size_t i = 0; i < n; i++)
		elements[i].place = i;
	n_compared = 0;
	sort(elements, n, sizeof *elements, compare);
	for (size_t i = 0; i < n; i++) {
		assert_true(elements[i].place < n && !seen[elements[i].place]);
		seen[elements[i].place] = true;
		if (!i)
			continue;
		assert_true(elements[i - 1].key <= elements[i].key);
		if (elements[i - 1].key == elements[i].key)
			assert_true(elements[i - 1].place < elements[i].place);
	}
	free(seen);
}

/* All ways to fill up to six places with three keys, so every shape of stretches. */
static void all_small_inputs_are_sorted(void **state)
{
	struct element elements[6];

	(void)state;
	check(NULL, 0);
	for (size_t n = 1; n <= 6; n++) {
		for (size_t way = 0; way < 729; way++) {
			size_t rest = way;

			for (size_t i = 0; i < n; i++, rest /= 3)
				elements[i].key = rest % 3;
			check(elements, n);
		}
	}
}

static void random_inputs_are_sorted(void **state)
{
	struct element elements[1000];
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 1000; round++) {
		size_t n = next_random(&seed) % 1000;
		uint64_t keys = 1 + next_random(&seed) % 2000;
		uint64_t turn =
			1 + next_random(&seed) % 100; /* a stretch ends there, once in so many */

		for (size_t i = 0; i < n; i++)
			elements[i].key = i && next_random(&seed) % turn
						  ? elements[i - 1].key + next_random(&seed) % 3
						  : next_random(&seed) % keys;
		check(elements, n);
	}
}

COMPARISON(compare_twice, struct element, ORDER(y->key, x->key) ?: ORDER(x->place, y->place))

/* The largest key first, then the smallest place, as two loops over all pairs find it. */
static void comparisons_order_by_several_keys(void **state)
{
	struct element elements[9];

	(void)state;
	for (size_t i = 0; i < 9; i++)
		elements[i] = (struct element){ i * 5 % 3, i * 4 % 9 };
	sort(elements, 9, sizeof *elements, compare_twice);
	for (size_t i = 0; i < 9; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(elements[k].key > elements[i].key ||
				    (elements[k].key == elements[i].key &&
				     elements[k].place < elements[i].place));
}

/* Each limit in each list of up to 20 even numbers, against a loop from the front. */
static void searches_find_the_first_one(void **state)
{
	(void)state;
	for (size_t n = 0; n <= 20; n++)
		for (size_t limit = 0; limit <= 2 * n + 2; limit++) {
			size_t i, wanted = 0;

			while (wanted < n && 2 * wanted < limit)
				wanted++;
			SEARCH(i, n, 2 * i < limit);
			assert_int_equal(i, wanted);
		}
}

/* Files behind each other, in order or in turns of 100: little more than a look at each element. */
static void sorted_stretches_are_cheap(void **state)
{
	enum { N = 100000 };
	struct element *elements = xcalloc(N, sizeof *elements);

	(void)state;
	for (size_t i = 0; i < N; i++)
		elements[i].key = i;
	check(elements, N);
	assert_int_equal(n_compared, N - 1);
	for (size_t i = 0; i < N; i++)
		elements[i].key = (i + N / 2) % N;
	check(elements, N);
	assert_true(n_compared < N + 100);
	for (size_t i = 0; i < N; i++)
		elements[i].key = i % (N / 2) / 100 * 200 + i % 100 + i / (N / 2) * 100;
	check(elements, N);
	assert_true(n_compared < N + N / 5);
	free(elements);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_aligned_and_apart),
		cmocka_unit_test(texts_are_copied_or_taken),
		cmocka_unit_test(the_lowest_item_is_told),
		cmocka_unit_test(a_cause_is_told_before_what_follows_from_it),
		cmocka_unit_test(what_follows_is_known_until_the_next_failure),
		cmocka_unit_test(the_nearest_word_is_suggested),
		cmocka_unit_test(long_names_are_not_near),
		cmocka_unit_test(words_have_the_order_of_their_enum),
		cmocka_unit_test(all_small_inputs_are_sorted),
		cmocka_unit_test(random_inputs_are_sorted),
		cmocka_unit_test(sorted_stretches_are_cheap),
		cmocka_unit_test(comparisons_order_by_several_keys),
		cmocka_unit_test(searches_find_the_first_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
