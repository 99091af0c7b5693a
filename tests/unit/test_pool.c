/* SPDX-License-Identifier: Apache-2.0
 *
 * base/pool.h: which of several failures is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/pool.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_item_is_told),
		cmocka_unit_test(a_cause_is_told_before_what_follows_from_it),
		cmocka_unit_test(what_follows_is_known_until_the_next_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
