/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of an arena are aligned, do not overlap and stay as they were written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/mem.h"

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

	(void)state;
	for (size_t i = 0; i < N_PIECES; i++) {
		pieces[i] = arena_alloc(&arena, size_of(i));
		assert_int_equal((uintptr_t)pieces[i] % _Alignof(uint64_t), 0);
		memset(pieces[i], (int)(i % 251), size_of(i));
	}
	for (size_t i = 0; i < N_PIECES; i++)
		for (size_t k = 0; k < size_of(i); k++)
			assert_int_equal(pieces[i][k], i % 251);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_aligned_and_apart),
		cmocka_unit_test(texts_are_copied_or_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
