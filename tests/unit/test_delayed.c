/* SPDX-License-Identifier: Apache-2.0
 *
 * Delayed scaling on every backend: step by step the sequences of tests/golden/delayed.txt, and any
 * history at all against the scalar update, all slots in one call.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "num/scale.h"
#include "quantizer/history.h"
#include "support/golden_text.h"
#include "support/skipped.h"

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

static void check_step(const struct backend *backend, struct history *h, const struct text *g)
{
	float reduced[N_SLOTS] = { 0 };
	struct delayed_slots slots[N_STATES];

	for (size_t s = 0; s < N_STATES; s++) {
		for (size_t i = 0; i < N_MARGINS; i++) {
			h[s].amax[i] = f32_from_bits(text_bits(g->fields[0]));
			reduced[i] = f32_from_bits(text_bits(g->fields[1]));
		}
		slots[s] = history_slots(&h[s], reduced, algos[s]);
	}
	assert_int_equal(backend_delayed_update(backend, slots, N_STATES, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < N_STATES * N_MARGINS; i++) {
		float scale = h[i / N_MARGINS].scale[i % N_MARGINS];

		if (f32_bits(scale) != text_bits(g->fields[2 + i]))
			fail_msg("%s:%d: %s: column %zu: scale %08x, not %s", g->name, g->line_no,
				 backend->name, i + 1, f32_bits(scale), g->fields[2 + i]);
	}
}

static void check_history(const struct backend *backend, const struct history *h,
			  const struct text *g)
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
			fail_msg("%s:%d: %s: slot %zu: another history", g->name, g->line_no,
				 backend->name, slot);
	}
	assert_true(h->scale[N_MARGINS] == 1);
	free(column);
}

static void golden_of(const struct backend *backend)
{
	struct history h[N_STATES] = { { 0 } };
	size_t n_steps = 0, n_sequences = 0;
	struct text g;

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
				check_history(backend, &h[s], &g);
				history_release(&h[s]);
			}
		} else {
			check_step(backend, h, &g);
			n_steps--;
		}
	}
	assert_int_equal(n_sequences, 10);
}

static void steps_equal_the_golden_sequences(void **state)
{
	(void)state;
	for (const struct backend *const *b = backends; *b; b++) {
		if (!(*b)->unusable())
			golden_of(*b);
	}
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

/* --- any history --- */

static const size_t lengths[] = { 1, 2, 31, 255, 256, 257, 1024 };
#define N_LENGTHS (sizeof lengths / sizeof *lengths)
#define N_CASES	  (3 * N_LENGTHS)
#define N_WIDEST  5

/* A pair of equal histories: what the scalar update makes of one, a backend must make of the other.
 */
struct pair {
	struct history h[2];
	float reduced[N_WIDEST];
};

static float any_amax(uint64_t *seed)
{
	static const float special[] = { 0, -0.0f, NAN, INFINITY, -3, 0x1p-149f, 0x1.fffffep127f };
	uint64_t bits = *seed = *seed * 6364136223846793005u + 1442695040888963407u;

	if (bits >> 60 < 3)
		return special[(bits >> 32) % (sizeof special / sizeof *special)];
	return ldexpf((float)(bits >> 40), (int)(bits >> 33 & 63) - 50);
}

/* Slots by the hundred would not fit the harness's time: each case has 1 to 5, or none. */
static void pair_init(struct pair *p, size_t i, uint64_t *seed)
{
	size_t n = i % (N_WIDEST + 1);

	for (int k = 0; k < 2; k++)
		history_init(&p->h[k], lengths[i % N_LENGTHS], n);
	for (size_t j = 0; j < p->h[0].len * n; j++)
		p->h[0].amax[j] = p->h[1].amax[j] = any_amax(seed);
	for (size_t j = 0; j < n; j++) {
		struct qspec spec = { .format = (enum fp8_format)(j % 2), .margin = (int)j - 2 };

		p->h[0].fmax[j] = p->h[1].fmax[j] = scale_fmax(&spec);
		p->reduced[j] = (i + j) % 4 ? any_amax(seed) : 0;
	}
}

static void pair_check(const struct backend *backend, const struct pair *p, size_t i)
{
	const struct history *want = &p->h[0], *got = &p->h[1];

	for (size_t j = 0; j < want->n_slots; j++)
		if (f32_bits(want->scale[j]) != f32_bits(got->scale[j]))
			fail_msg("%s: case %zu: slot %zu: scale %08x, not %08x", backend->name, i,
				 j, f32_bits(got->scale[j]), f32_bits(want->scale[j]));
	for (size_t j = 0; j < want->len * want->n_slots; j++)
		if (f32_bits(want->amax[j]) != f32_bits(got->amax[j]))
			fail_msg("%s: case %zu: h[%zu] of slot %zu: %08x, not %08x", backend->name,
				 i, j / want->n_slots, j % want->n_slots, f32_bits(got->amax[j]),
				 f32_bits(want->amax[j]));
}

static void any_history_of(const struct backend *backend, uint64_t seed)
{
	struct pair pairs[N_CASES] = { 0 };
	struct delayed_slots slots[N_CASES];

	for (size_t i = 0; i < N_CASES; i++) {
		enum amax_algo algo = i / N_LENGTHS % 2 ? AMAX_MOST_RECENT : AMAX_MAX;
		struct delayed_slots scalar;

		pair_init(&pairs[i], i, &seed);
		scalar = history_slots(&pairs[i].h[0], pairs[i].reduced, algo);
		slots[i] = history_slots(&pairs[i].h[1], pairs[i].reduced, algo);
		delayed_slots_update(&scalar);
	}
	assert_int_equal(backend_delayed_update(backend, slots, N_CASES, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < N_CASES; i++) {
		pair_check(backend, &pairs[i], i);
		history_release(&pairs[i].h[0]);
		history_release(&pairs[i].h[1]);
	}
}

static void any_history_updates_like_the_reference(void **state)
{
	(void)state;
	for (const struct backend *const *b = backends; *b; b++) {
		for (uint64_t seed = 1; seed <= 20 && !(*b)->unusable(); seed++)
			any_history_of(*b, seed);
		if (!(*b)->unusable())
			assert_int_equal(backend_delayed_update(*b, NULL, 0, &(struct err){ 0 }),
					 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_equal_the_golden_sequences),
		cmocka_unit_test(the_window_is_this_step_and_the_three_before),
		cmocka_unit_test(any_history_updates_like_the_reference),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
