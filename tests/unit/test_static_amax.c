/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe/static_amax.h: which amax stands for a history.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/amax_bin.h"
#include "num/scale.h"
#include "quantizer/state.h"
#include "recipe/static_amax.h"
#include "support/golden.h"

static const struct qspec spec = { .format = FP8_E4M3 };

static void bins_lie_in_one_binade(void **state)
{
	(void)state;
	for (unsigned b = 0; b < AMAX_BIN_INF; b++) {
		float low = amax_bin_edge(b), high = amax_bin_edge(b + 1);

		assert_true(low < high && amax_bin(low) == b && amax_bin(-low) == b);
		assert_int_equal(amax_bin(nextafterf(high, 0)), b);
		assert_true(b < 8 || ilogbf(low) == ilogbf(nextafterf(high, 0)));
	}
	assert_int_equal(amax_bin(INFINITY), AMAX_BIN_INF);
}

static void choices_are_read(void **state)
{
	static const struct {
		const char *text;
		enum static_algo algo;
		uint32_t share;
	} rows[] = {
		{ "max", STATIC_MAX, 0 },
		{ "most-recent", STATIC_MOST_RECENT, 0 },
		{ "mse", STATIC_MSE, 0 },
		{ "percentile=100", STATIC_PERCENTILE, 100000000 },
		{ "percentile=099.9", STATIC_PERCENTILE, 99900000 },
		{ "percentile=100.000000", STATIC_PERCENTILE, 100000000 },
		{ "percentile=0.000001", STATIC_PERCENTILE, 1 },
		{ "percentile=99.999999", STATIC_PERCENTILE, 99999999 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct static_choice choice;
		struct err err = { 0 };

		assert_int_equal(static_choice_read(&choice, "--amax-algo", rows[i].text, &err), 0);
		assert_int_equal(choice.algo, rows[i].algo);
		assert_int_equal(choice.share, rows[i].share);
	}
}

/* The column w of four passes: 2, inf, 5, 0; that of y: 1, 3, 0, 0. */
static void a_static_amax_follows_its_algorithm(void **state)
{
	static const float passes[4][3] = {
		{ 9, 2, 1 }, { 9, INFINITY, 3 }, { 9, 5, 0 }, { 9, 0, 0 }
	};
	static const struct {
		int column;
		size_t n_passes;
		enum static_algo algo;
		float amax;
	} rows[] = {
		{ 1, 1, STATIC_MAX, 2 },	 { 1, 4, STATIC_MAX, INFINITY },
		{ 1, 4, STATIC_MOST_RECENT, 5 }, { 1, 2, STATIC_MOST_RECENT, INFINITY },
		{ 2, 4, STATIC_MAX, 3 },	 { 2, 4, STATIC_MOST_RECENT, 3 },
		{ 2, 1, STATIC_MOST_RECENT, 1 }, { 2, 0, STATIC_MOST_RECENT, 0 },
		{ 2, 0, STATIC_MAX, 0 },	 { 2, 4, STATIC_MSE, 3 }, /* without a histogram */
		{ 2, 4, STATIC_PERCENTILE, 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct static_choice choice = { rows[i].algo, 1 };
		struct static_history history = { &passes[0][rows[i].column], rows[i].n_passes, 3,
						  NULL, 0 };

		assert_true(static_amax(&choice, &history, &spec) == rows[i].amax);
	}
}

static float of_counts(const struct static_choice *choice, uint64_t (*counts)[2], int column,
		       float most)
{
	struct static_history history = { &most, 1, 3, &counts[0][column], 2 };

	return static_amax(choice, &history, &spec);
}

/* 999 values in [1, 1.125), one in [4, 4.5), none of the other column. */
static void percentiles_follow_the_histogram(void **state)
{
	static uint64_t counts[AMAX_BINS][2];
	static const struct {
		uint32_t share;
		float most, amax;
	} rows[] = {
		{ 1, 4.25f, 1.125f },
		{ 50000000, 4.25f, 1.125f },
		{ 99900000, 4.25f, 1.125f },
		{ 99900001, 4.25f, 4.25f },
		{ 99900001, 4.5f, 4.5f },
		{ 100000000, 4.4f, 4.4f },
		{ 100000000, 9.0f, 4.5f },
		{ 50000000, 1.0625f, 1.0625f }, /* passes with larger ones were dropped */
	};

	(void)state;
	memset(counts, 0, sizeof counts);
	counts[amax_bin(1)][1] = 999;
	counts[amax_bin(4)][1] = 1;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct static_choice choice = { STATIC_PERCENTILE, rows[i].share };

		assert_true(of_counts(&choice, counts, 1, rows[i].most) == rows[i].amax);
		assert_true(of_counts(&choice, counts, 0, rows[i].most) == rows[i].most);
	}
	/* Counts of any size; an infinity takes part, and no share of it is finite. */
	counts[amax_bin(1)][1] = UINT64_MAX;
	counts[amax_bin(4)][1] = UINT64_MAX;
	assert_true(of_counts(&(struct static_choice){ STATIC_PERCENTILE, 50000000 }, counts, 1,
			      9) == 1.125f);
	assert_true(of_counts(&(struct static_choice){ STATIC_PERCENTILE, 50000001 }, counts, 1,
			      9) == 4.5f);
	counts[AMAX_BIN_INF][1] = UINT64_MAX;
	assert_true(of_counts(&(struct static_choice){ STATIC_PERCENTILE, 60000000 }, counts, 1,
			      INFINITY) == 4.5f);
	assert_true(isinf(of_counts(&(struct static_choice){ STATIC_PERCENTILE, 70000000 }, counts,
				    1, INFINITY)));
}

/* n values in each of the bins of 1, 1 + 1/16, ... below 8 (some bins twice), and `out` in that of
 * `far`. */
static void flat(uint64_t (*counts)[2], uint64_t n, float far, uint64_t out)
{
	memset(counts, 0, AMAX_BINS * sizeof *counts);
	for (int i = 16; n && i < 128; i++)
		counts[amax_bin((float)i / 16)][0] += n;
	counts[amax_bin(far)][0] += out;
}

/* By least_squares() of tests/cli/amax.py, which rounds to E4M3 by itself. */
static void least_squares_equals_the_independent_one(void **state)
{
	static uint64_t counts[AMAX_BINS][2];
	static const struct {
		uint64_t n;
		float far;
		uint64_t out;
		float most, amax;
	} rows[] = {
		{ 1000, 11.5f, 1, 11.5f, 8.0f },
		{ 1000, 11.5f, 4000, 11.5f, 11.5f },
		{ 1000, 11.5f, 500, 11.5f, 11.0f }, /* by 4 % of the error, then by 1.4 % */
		{ 1000, 9.5f, 500, 9.5f, 9.0f },
		{ 0, 0.3f, 7, 0.3f, 0.3f },
		{ 0, 7.5f, 1000000, 9.0f, 9.0f },
		{ 0, 7.5f, 0, 3.0f, 3.0f }, /* nothing was counted */
		{ 0, 7.5f, 1, INFINITY, INFINITY },
		{ 0, 0, 1, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct static_choice choice = { .algo = STATIC_MSE };

		flat(counts, rows[i].n, rows[i].far, rows[i].out);
		assert_true(of_counts(&choice, counts, 0, rows[i].most) == rows[i].amax);
	}
}

/* With amax 448 a value is its own scaled value.  A bin has eight: (edge, next edge) in sixteenths
 * 1, 3 .. 15 of its width.  Below 2^-10 all become zero; from 2^-10 on none does.  [448, 480) has
 * four points above the tie of 464, unless the history says that no value is above 448. */
static void losses_follow_from_the_points_of_a_bin(void **state)
{
	static uint64_t counts[AMAX_BINS][2];
	static const struct {
		float at, most;
		uint64_t n;
		double underflow, overflow;
	} rows[] = {
		{ 0x1p-11f, 448, 80, 80, 0 }, { 0x1p-10f, 448, 80, 0, 0 },  { 448, 480, 80, 0, 40 },
		{ 448, 448, 80, 0, 0 },	      { 480, 500, 80, 0, 80 },	    { 1, 448, 80, 0, 0 },
		{ 0, 448, 80, 0, 0 },	      { INFINITY, 448, 80, 0, 80 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct static_history history = { &rows[i].most, 1, 3, &counts[0][0], 2 };
		struct static_loss loss;

		memset(counts, 0, sizeof counts);
		counts[amax_bin(rows[i].at)][0] = rows[i].n;
		static_loss(&history, &spec, 448, &loss);
		assert_true(loss.n == rows[i].n);
		assert_true(loss.underflow == rows[i].underflow);
		assert_true(loss.overflow == rows[i].overflow);
	}
}

/* --- delayed --- */

/* Delayed scaling, step by step: the sequences of tests/golden/delayed.txt. */

/* The columns of delayed.txt are the slots of two states; one more is never touched, and must stay
 * so. */
#define N_STATES 2
static const enum amax_algo algos[N_STATES] = { AMAX_MAX, AMAX_MOST_RECENT };
static const int margins[] = { 0, 2 };
#define N_MARGINS (sizeof margins / sizeof *margins)
#define N_SLOTS	  (N_MARGINS + 1)

static void states_init(struct history *h, size_t len, enum fp8_format format)
{
	for (size_t s = 0; s < N_STATES; s++) {
		history_init(&h[s], len, N_SLOTS);
		for (size_t i = 0; i < N_SLOTS; i++) {
			struct qspec delayed_spec = { .format = format,
						      .margin = i < N_MARGINS ? margins[i] : 0 };

			h[s].fmax[i] = scale_fmax(&delayed_spec);
		}
	}
}

static void check_step(struct history *h, const struct text *g)
{
	float reduced[N_SLOTS] = { 0 };

	for (size_t s = 0; s < N_STATES; s++) {
		struct delayed_slots slots;

		for (size_t i = 0; i < N_MARGINS; i++) {
			h[s].amax[i] = f32_from_bits(text_bits(g->fields[0]));
			reduced[i] = f32_from_bits(text_bits(g->fields[1]));
		}
		slots = history_slots(&h[s], reduced, algos[s]);
		delayed_slots_update(&slots);
	}
	for (size_t i = 0; i < N_STATES * N_MARGINS; i++) {
		float scale = h[i / N_MARGINS].scale[i % N_MARGINS];

		if (f32_bits(scale) != text_bits(g->fields[2 + i]))
			fail_msg("%s:%d: column %zu: scale %08x, not %s", g->name, g->line_no,
				 i + 1, f32_bits(scale), g->fields[2 + i]);
	}
}

static void check_history(const struct history *h, const struct text *g)
{
	float *column = malloc(h->len * sizeof *column);

	assert_non_null(column);
	for (size_t slot = 0; slot < N_SLOTS; slot++) {
		for (size_t i = 0; i < h->len; i++) {
			column[i] = h->amax[i * h->n_slots + slot];
			if (slot == N_MARGINS)
				assert_int_equal(f32_bits(column[i]), 0);
		}
		if (slot < N_MARGINS && !hash_is(g->fields[1], column, h->len * sizeof *column))
			fail_msg("%s:%d: slot %zu: another history", g->name, g->line_no, slot);
	}
	assert_true(h->scale[N_MARGINS] == 1);
	free(column);
}

static void steps_equal_the_golden_sequences(void **state)
{
	struct history h[N_STATES] = { { 0 } };
	size_t n_steps = 0, n_sequences = 0;
	struct text g;

	(void)state;
	text_open(&g, GOLDEN_DIR "delayed.txt");
	while (text_next(&g)) {
		if (!strcmp(g.fields[0], "sequence")) {
			assert_int_equal(n_steps, 0);
			states_init(h, text_number(g.fields[1]), golden_format(g.fields[2]));
			n_steps = text_number(g.fields[3]);
			n_sequences++;
		} else if (!strcmp(g.fields[0], "history")) {
			assert_int_equal(n_steps, 0);
			for (size_t s = 0; s < N_STATES; s++) {
				check_history(&h[s], &g);
				history_release(&h[s]);
			}
		} else {
			check_step(h, &g);
			n_steps--;
		}
	}
	assert_int_equal(n_sequences, 10);
}

/* The maximum is that of this step and the 3 before it; a step of 0 is none. */
static void the_window_is_this_step_and_the_three_before(void **state)
{
	static const float steps[][2] = {
		/* amax, scale after it */
		{ 448, 1 }, { 224, 1 }, { 112, 1 },	 { 56, 1 },  { 0, 1 },
		{ 28, 2 },  { 28, 4 },	{ INFINITY, 4 }, { NAN, 4 },
	};
	struct history h = { 0 };
	float reduced = 0; /* no reduction: h[0] counts */
	struct delayed_slots slots;

	(void)state;
	history_init(&h, 4, 1);
	h.fmax[0] = 448;
	slots = history_slots(&h, &reduced, AMAX_MAX);
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		h.amax[0] = steps[i][0];
		delayed_slots_update(&slots);
		assert_true(h.scale[0] == steps[i][1]);
		assert_true(h.amax[0] == 0 || steps[i][0] == 0);
	}
	history_release(&h);
	history_release(&h); /* an empty one is safe to release */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bins_lie_in_one_binade),
		cmocka_unit_test(choices_are_read),
		cmocka_unit_test(a_static_amax_follows_its_algorithm),
		cmocka_unit_test(percentiles_follow_the_histogram),
		cmocka_unit_test(least_squares_equals_the_independent_one),
		cmocka_unit_test(losses_follow_from_the_points_of_a_bin),
		cmocka_unit_test(steps_equal_the_golden_sequences),
		cmocka_unit_test(the_window_is_this_step_and_the_three_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
