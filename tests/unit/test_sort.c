/* SPDX-License-Identifier: Apache-2.0
 *
 * sort() against what a sorted array is: in order, equals as they stood, all of them there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/sort.h"

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
		cmocka_unit_test(all_small_inputs_are_sorted),
		cmocka_unit_test(random_inputs_are_sorted),
		cmocka_unit_test(sorted_stretches_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
