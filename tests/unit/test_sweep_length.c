/* SPDX-License-Identifier: Apache-2.0
 *
 * How many passes a sweep takes: a minute of them, by a clock that the test sets; of a model that
 * loads slowly so many that loading is a quarter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sweep/length.h"

static double clock_now;

static double now(void)
{
	return clock_now;
}

/* A sweep of n passes: seconds that n_loading threads loaded, and of everything. */
static size_t sweep_loading(struct sweep_length *length, size_t n, double loading, int n_loading,
			    double taken, int n_threads)
{
	double began = sweep_length_now(length), end = clock_now + taken;

	clock_now += loading;
	sweep_length_loaded(length, began, n_loading);
	clock_now = end;
	return sweep_length_next(length, n, n_threads);
}

static size_t sweep(struct sweep_length *length, size_t n, double loading, double taken,
		    int n_threads)
{
	return sweep_loading(length, n, loading, 1, taken, n_threads);
}

static void a_sweep_takes_a_minute(void **state)
{
	struct sweep_length length = { .now = now, .first = 2 };

	(void)state;
	clock_now = 1000;
	assert_int_equal(sweep_length_begin(&length, 100), 2);
	/* 8 seconds for 2 passes, and 2 to load: (60 - 2) / 4. */
	assert_int_equal(sweep(&length, 2, 2, 10, 1), 14);
	/* 8 seconds of 2 threads' time are 4. (60 - 4) / (56 / 14). */
	assert_int_equal(sweep(&length, 14, 8, 60, 2), 14);
	assert_int_equal(sweep_loading(&length, 14, 4, 2, 60, 2), 14);
	/* What took longer than the rest before: (60 - 2) / 58. */
	assert_int_equal(sweep(&length, 1, 2, 60, 1), 1);
}

static void loading_is_a_quarter_of_the_passes(void **state)
{
	struct sweep_length length = { .now = now, .first = 1 };

	(void)state;
	sweep_length_begin(&length, 100);
	/* 40 seconds to load, 20 a pass: 120 seconds of passes, so that 40 are a quarter. */
	assert_int_equal(sweep(&length, 1, 40, 60, 1), 6);
	assert_int_equal(sweep(&length, 6, 40, 160, 1), 6);
}

static void the_length_keeps_its_bounds(void **state)
{
	struct sweep_length length = { .now = now, .first = 4 }, still = { .first = 3 };

	(void)state;
	assert_int_equal(sweep_length_begin(&length, 2), 2);
	assert_int_equal(sweep(&length, 2, 0, 0, 1), 2);
	assert_int_equal(sweep(&length, 2, 1, 1.5, 1), 2);
	assert_int_equal(sweep(&length, 2, 1, 10000, 1), 1);
	assert_int_equal(sweep_length_begin(&still, 100), 3);
	assert_int_equal(sweep_length_next(&still, 3, 1), 3);
	assert_int_equal(sweep_length_begin(&still, 2), 2);
}

/* Three sequences take two threads as long as four. */
static void a_sweep_gives_all_threads_as_much(void **state)
{
	struct sweep_length length = { .now = now, .first = 3, .step = 2 };

	(void)state;
	assert_int_equal(sweep_length_begin(&length, 15), 4);
	/* (60 - 2) / 4 is 14.5, / 4.3 is 13.5, / 5.5 is 10.5; never above the most. */
	assert_int_equal(sweep(&length, 2, 2, 10, 1), 14);
	assert_int_equal(sweep(&length, 2, 2, 10.6, 1), 14);
	assert_int_equal(sweep(&length, 2, 2, 13, 1), 10);
	assert_int_equal(sweep(&length, 2, 0, 0.1, 1), 15);
	assert_int_equal(sweep(&length, 2, 1, 10000, 1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sweep_takes_a_minute),
		cmocka_unit_test(loading_is_a_quarter_of_the_passes),
		cmocka_unit_test(the_length_keeps_its_bounds),
		cmocka_unit_test(a_sweep_gives_all_threads_as_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
