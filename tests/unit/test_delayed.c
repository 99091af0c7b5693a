/* SPDX-License-Identifier: Apache-2.0
 *
 * Delayed scaling, step by step: the sequences of tests/golden/delayed.txt, through a history of
 * several slots.
 */
#include "tests/unit/golden_text.h"

#include <math.h>

#include "recipe/history.h"

/* The columns of delayed.txt. */
static const struct {
	enum amax_algo algo;
	int margin;
} columns[] = {
	{ AMAX_MAX, 0 },
	{ AMAX_MAX, 2 },
	{ AMAX_MOST_RECENT, 0 },
	{ AMAX_MOST_RECENT, 2 },
};
#define N_COLUMNS (sizeof columns / sizeof *columns)

/* Columns are slots; one more is never touched, and must stay so. */
static void check_step(struct history *h, enum fp8_format format, const struct text *g)
{
	float reduced = f32_from_bits(hex(g->fields[1]));

	for (size_t i = 0; i < N_COLUMNS; i++) {
		struct qspec spec = { .format = format, .margin = columns[i].margin };

		h->amax[i] = f32_from_bits(hex(g->fields[0]));
		history_update(h, i, reduced, &spec, columns[i].algo);
		if (f32_bits(h->scale[i]) != hex(g->fields[2 + i]))
			fail_msg("%s:%d: column %zu: scale %08x, not %s", g->name, g->line_no,
				 i + 1, f32_bits(h->scale[i]), g->fields[2 + i]);
	}
	history_update(h, N_COLUMNS, 0, &(struct qspec){ 0 }, AMAX_MAX);
	assert_true(h->scale[N_COLUMNS] == 1);
}

static void check_history(const struct history *h, const struct text *g)
{
	float *column = malloc(h->len * sizeof *column);

	assert_non_null(column);
	for (size_t slot = 0; slot <= N_COLUMNS; slot++) {
		for (size_t i = 0; i < h->len; i++) {
			column[i] = h->amax[i * h->n_slots + slot];
			if (slot == N_COLUMNS)
				assert_int_equal(f32_bits(column[i]), 0);
		}
		if (slot < N_COLUMNS && !hash_is(g->fields[1], column, h->len * sizeof *column))
			fail_msg("%s:%d: slot %zu: another history", g->name, g->line_no, slot);
	}
	free(column);
}

static void golden_delayed(void **state)
{
	struct history h = { 0 };
	enum fp8_format format = FP8_E4M3;
	size_t n_steps = 0, n_sequences = 0;
	struct text g;

	(void)state;
	text_open(&g, FOLDER "delayed.txt");
	while (text_next(&g)) {
		if (!strcmp(g.fields[0], "sequence")) {
			assert_int_equal(n_steps, 0);
			history_init(&h, number(g.fields[1]), N_COLUMNS + 1);
			format = format_of(g.fields[2]);
			n_steps = number(g.fields[3]);
			n_sequences++;
		} else if (!strcmp(g.fields[0], "history")) {
			assert_int_equal(n_steps, 0);
			check_history(&h, &g);
			history_release(&h);
		} else {
			check_step(&h, format, &g);
			n_steps--;
		}
	}
	assert_int_equal(n_sequences, 10);
}

/* The maximum is that of this step and the 3 before it; a step of 0 is none. */
static void window(void **state)
{
	static const float steps[][2] = {
		/* amax, scale after it */
		{ 448, 1 }, { 224, 1 }, { 112, 1 },	 { 56, 1 },  { 0, 1 },
		{ 28, 2 },  { 28, 4 },	{ INFINITY, 4 }, { NAN, 4 },
	};
	struct qspec spec = { .format = FP8_E4M3 };
	struct history h = { 0 };

	(void)state;
	history_init(&h, 4, 1);
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		h.amax[0] = steps[i][0];
		history_update(&h, 0, 0, &spec, AMAX_MAX); /* no reduction: h[0] counts */
		assert_true(h.scale[0] == steps[i][1]);
		assert_true(h.amax[0] == 0 || steps[i][0] == 0);
	}
	history_release(&h);
	history_release(&h); /* an empty one is safe to release */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_delayed),
		cmocka_unit_test(window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
