/* SPDX-License-Identifier: Apache-2.0
 *
 * Delayed scaling, step by step: the sequences of tests/golden/delayed.txt.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/scale.h"
#include "quantizer/state.h"
#include "support/golden.h"

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
			struct qspec spec = { .format = format,
					      .margin = i < N_MARGINS ? margins[i] : 0 };

			h[s].fmax[i] = scale_fmax(&spec);
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
		cmocka_unit_test(steps_equal_the_golden_sequences),
		cmocka_unit_test(the_window_is_this_step_and_the_three_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
