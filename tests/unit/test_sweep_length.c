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
static size_t sweep_loading(struct pace *pace, size_t n, double loading, int n_loading,
			    double taken, int n_threads)
{
	double began = pace_now(pace), end = clock_now + taken;

	clock_now += loading;
	pace_loaded(pace, began, n_loading);
	clock_now = end;
	return pace_next(pace, n, n_threads);
}

static size_t sweep(struct pace *pace, size_t n, double loading, double taken, int n_threads)
{
	return sweep_loading(pace, n, loading, 1, taken, n_threads);
}

static void test_minute(void **state)
{
	struct pace pace = { .now = now, .first = 2 };

	(void)state;
	clock_now = 1000;
	assert_int_equal(pace_begin(&pace, 100), 2);
	/* 8 seconds for 2 passes, and 2 to load: (60 - 2) / 4. */
	assert_int_equal(sweep(&pace, 2, 2, 10, 1), 14);
	/* 8 seconds of 2 threads' time are 4. (60 - 4) / (56 / 14). */
	assert_int_equal(sweep(&pace, 14, 8, 60, 2), 14);
	assert_int_equal(sweep_loading(&pace, 14, 4, 2, 60, 2), 14);
	/* What took longer than the rest before: (60 - 2) / 58. */
	assert_int_equal(sweep(&pace, 1, 2, 60, 1), 1);
}

static void test_loading(void **state)
{
	struct pace pace = { .now = now, .first = 1 };

	(void)state;
	pace_begin(&pace, 100);
	/* 40 seconds to load, 20 a pass: 120 seconds of passes, so that 40 are a quarter. */
	assert_int_equal(sweep(&pace, 1, 40, 60, 1), 6);
	assert_int_equal(sweep(&pace, 6, 40, 160, 1), 6);
}

static void test_bounds(void **state)
{
	struct pace pace = { .now = now, .first = 4 }, still = { .first = 3 };

	(void)state;
	assert_int_equal(pace_begin(&pace, 2), 2);
	assert_int_equal(sweep(&pace, 2, 0, 0, 1), 2);
	assert_int_equal(sweep(&pace, 2, 1, 1.5, 1), 2);
	assert_int_equal(sweep(&pace, 2, 1, 10000, 1), 1);
	assert_int_equal(pace_begin(&still, 100), 3);
	assert_int_equal(pace_next(&still, 3, 1), 3);
	assert_int_equal(pace_begin(&still, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_minute),
		cmocka_unit_test(test_loading),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
