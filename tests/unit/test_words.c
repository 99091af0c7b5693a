/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/words.h"

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
	assert_string_equal(words_get(words, 0, word), "te");
	assert_string_equal(words_get(words, 1, word), "deepseek");
	assert_string_equal(words_get(words, 2, word), "deepgemm");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nearest_word_is_suggested),
		cmocka_unit_test(long_names_are_not_near),
		cmocka_unit_test(words_have_the_order_of_their_enum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
