/* SPDX-License-Identifier: Apache-2.0
 *
 * knapsack_choose() against all choices of small cases, one after the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sensitivity/knapsack.h"

#define MAX_SETS    5
#define MAX_OPTIONS 4
#define SLACK	    1e-9 /* sums in another order */

struct game {
	struct knapsack_option options[MAX_SETS][MAX_OPTIONS];
	struct knapsack_set sets[MAX_SETS];
	size_t n;
	double largest; /* saving of one set */
};

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* Few different numbers, so that ties, equal options and options that cost nothing occur. */
static void deal(struct game *game, uint64_t *seed)
{
	game->n = 1 + next_random(seed) % MAX_SETS;
	game->largest = 0;
	for (size_t s = 0; s < game->n; s++) {
		size_t n = 1 + next_random(seed) % MAX_OPTIONS;

		for (size_t i = 0; i < n; i++) {
			game->options[s][i] = (struct knapsack_option){
				.kld = (double)(next_random(seed) % 17) / 16,
				.n_bytes = 90 + (int64_t)(next_random(seed) % 40),
			};
			if (game->options[s][0].kld - game->options[s][i].kld > game->largest)
				game->largest = game->options[s][0].kld - game->options[s][i].kld;
		}
		game->sets[s] = (struct knapsack_set){ game->options[s], n, 99 };
	}
}

static double sum_kld(const struct game *game, int64_t *n_bytes)
{
	double kld = 0;

	*n_bytes = 0;
	for (size_t s = 0; s < game->n; s++) {
		const struct knapsack_set *set = &game->sets[s];

		assert_true(set->chosen < set->n_options);
		kld += set->options[set->chosen].kld;
		*n_bytes += set->options[set->chosen].n_bytes - set->options[0].n_bytes;
	}
	return kld;
}

/* Returns the smallest sum of all choices of at most so many bytes, of options that count. */
static double smallest(const struct game *game, size_t s, int64_t n_bytes)
{
	double best = 1e9;

	if (s == game->n)
		return n_bytes >= 0 ? 0 : 1e9;
	for (size_t i = 0; i < game->sets[s].n_options; i++) {
		const struct knapsack_option *option = &game->options[s][i];
		double rest;

		if (i && option->kld >= game->options[s][0].kld)
			continue;
		rest = smallest(game, s + 1,
				n_bytes - option->n_bytes + game->options[s][0].n_bytes);
		if (option->kld + rest < best)
			best = option->kld + rest;
	}
	return best;
}

/* Did the choice end before all steps that cost nothing? */
static bool ended_early(const struct game *game)
{
	bool early = false;

	for (size_t s = 0; s < game->n; s++)
		for (size_t i = 1; !game->sets[s].chosen && i < game->sets[s].n_options; i++)
			early |= game->options[s][i].kld < game->options[s][0].kld &&
				 game->options[s][i].n_bytes <= game->options[s][0].n_bytes;
	return early;
}

/* A sum that is reached costs as few bytes as it can, and one that cannot be reached is as small as
 * it can be. */
static void no_choice_of_as_many_bytes_is_better(void **state)
{
	uint64_t seed = 1;
	struct game game;

	(void)state;
	for (int round = 0; round < 4000; round++) {
		struct knapsack_limit limit = { .kld = (double)(next_random(&seed) % 64) / 16 };
		int64_t n_bytes;
		double kld;

		deal(&game, &seed);
		knapsack_choose(game.sets, game.n, &limit);
		kld = sum_kld(&game, &n_bytes);
		assert_true(ended_early(&game) || kld <= smallest(&game, 0, n_bytes) + SLACK);
		if (kld > limit.kld + SLACK)
			assert_true(kld <= smallest(&game, 0, INT32_MAX) + SLACK);
		/* the same bytes, as a budget, buy the same or more */
		limit = (struct knapsack_limit){ .by_bytes = true, .n_bytes = (double)n_bytes };
		if (n_bytes < 0)
			continue;
		knapsack_choose(game.sets, game.n, &limit);
		assert_true(sum_kld(&game, &n_bytes) <= kld + SLACK);
	}
}

static void a_budget_holds_and_loses_less_than_one_step(void **state)
{
	uint64_t seed = 7;
	struct game game;
	size_t n_best = 0, n = 4000;

	(void)state;
	for (size_t round = 0; round < n; round++) {
		struct knapsack_limit limit = { .by_bytes = true,
						.n_bytes = (double)(next_random(&seed) % 80) };
		int64_t n_bytes;
		double kld, best;

		deal(&game, &seed);
		best = smallest(&game, 0, (int64_t)limit.n_bytes);
		knapsack_choose(game.sets, game.n, &limit);
		kld = sum_kld(&game, &n_bytes);
		assert_true((double)n_bytes <= limit.n_bytes);
		assert_true(kld >= best - SLACK);
		assert_true(kld < best + game.largest || kld <= best + SLACK);
		n_best += kld <= best + SLACK;
	}
	assert_true(n_best > n * 3 / 4);
}

static void nothing_is_taken_without_need(void **state)
{
	const struct knapsack_option options[] = {
		{ 1, 100 }, { 0, 200 }, { 0.5, 100 }, { 2, 10 }
	};
	const struct knapsack_option little[] = { { 1, 100 }, { 0.9, 100 } };
	const struct knapsack_option much[] = { { 1, 100 }, { 0.5, 100 } };
	struct knapsack_set both[] = { { little, 2, 99 }, { much, 2, 99 } };
	struct knapsack_set set = { options, 4, 99 };

	(void)state;
	knapsack_choose(both, 2, &(struct knapsack_limit){ .kld = 1.6 });
	assert_int_equal(both[0].chosen, 0); /* the larger step is enough */
	assert_int_equal(both[1].chosen, 1);
	knapsack_choose(&set, 1, &(struct knapsack_limit){ .kld = 1 });
	assert_int_equal(set.chosen, 0);
	knapsack_choose(&set, 1, &(struct knapsack_limit){ .kld = 0.9 });
	assert_int_equal(set.chosen, 2); /* for no more bytes */
	knapsack_choose(&set, 1, &(struct knapsack_limit){ .kld = 0.4 });
	assert_int_equal(set.chosen, 1);
	knapsack_choose(&set, 1, &(struct knapsack_limit){ .by_bytes = true, .n_bytes = 99 });
	assert_int_equal(set.chosen, 2);
	knapsack_choose(&set, 1, &(struct knapsack_limit){ .by_bytes = true, .n_bytes = 100 });
	assert_int_equal(set.chosen, 1);
	knapsack_choose(NULL, 0, &(struct knapsack_limit){ .kld = 1 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_choice_of_as_many_bytes_is_better),
		cmocka_unit_test(a_budget_holds_and_loses_less_than_one_step),
		cmocka_unit_test(nothing_is_taken_without_need),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
