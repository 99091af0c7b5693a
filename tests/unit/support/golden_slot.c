/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/golden_slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "quantizer/state.h"
#include "recipe/recipe.h"

#define GOLDEN_LARGE 100000 /* elements: from here on the first two usages, a backend each */

/* Four fields: codes, then scale_inv compact, padded, swizzled. */
static void golden_copy_check(const struct text *g, int field, const char *who,
			      const struct fp8_copy *copy, const struct quantizer *q,
			      size_t n_codes)
{
	size_t n = copy->grid.rows * copy->grid.cols * scale_size(q->spec.scale_type);
	const char *want = g->fields[field + 1 + (int)q->order];

	if (!strcmp(want, "-")) /* there is nothing to swizzle */
		want = g->fields[field + 1 + SCALES_PADDED];
	if (!hash_is(g->fields[field], copy->codes, n_codes))
		fail_msg("%s:%d: %s: other codes, field %d", g->name, g->line_no, who, field);
	if (!hash_is(want, copy->scale_inv, n))
		fail_msg("%s:%d: %s: other scale_inv, field %d, order %d", g->name, g->line_no, who,
			 field, (int)q->order);
}

static void golden_usage_check(const struct text *g, const struct operation *op,
			       const struct backend *backend, const struct quantizer *q)
{
	struct quantized_tensor t = { 0 };
	struct quant_stats stats = { 0 };
	struct err err = { 0 };

	assert_int_equal(quantizer_make_empty(q, op->rows, op->cols, &t, &err), 0);
	assert_int_equal(t.rowwise.codes != NULL, q->rowwise);
	assert_int_equal(t.columnwise.codes != NULL, q->columnwise);
	if (q->amax)
		*q->amax = f32_from_bits(text_bits(g->fields[FIELD_BEFORE]));
	op->run(op->args, backend, q, &t, &stats);
	if (q->amax)
		assert_int_equal(f32_bits(*q->amax), text_bits(g->fields[FIELD_AFTER]));
	assert_int_equal(stats.nonfinite, text_number(g->fields[FIELD_NONFINITE]));
	if (q->rowwise) {
		assert_int_equal(stats.saturated, text_number(g->fields[FIELD_SATURATED]));
		golden_copy_check(g, FIELD_ROWWISE, backend->name, &t.rowwise, q,
				  op->rows * op->cols);
	}
	if (q->columnwise)
		golden_copy_check(g, FIELD_COLUMNWISE, backend->name, &t.columnwise, q,
				  op->rows * op->cols);
	quantized_tensor_release(&t);
}

void golden_slot_check(const struct text *g, const struct operation *op)
{
	static const struct {
		bool rowwise, columnwise;
		enum scale_order order;
	} usages[] = { { true, true, SCALES_PADDED },
		       { true, false, SCALES_COMPACT },
		       { false, true, SCALES_COMPACT },
		       { true, true, SCALES_GEMM } };
	struct quantizer quantizers[2 * N_FORWARD_SLOTS];
	struct recipe_state state;
	struct err err = { 0 };
	bool backward = !strcmp(g->fields[FIELD_MODE], "backward");
	size_t slot = text_number(g->fields[FIELD_SLOT]);
	bool large = op->rows * op->cols > GOLDEN_LARGE;

	recipe_state_init(&state, recipe_find(g->fields[FIELD_RECIPE], &err),
			  backward ? MODE_BACKWARD : MODE_FORWARD, 2);
	recipe_state_make_quantizers(&state, quantizers);
	assert_int_equal(quantizers[slot].scale != NULL, strcmp(g->fields[FIELD_SCALE], "-") != 0);
	if (state.history.n_slots)
		state.history.scale[slot] = f32_from_bits(text_bits(g->fields[FIELD_SCALE]));
	for (size_t i = 0; i < sizeof usages / sizeof *usages; i++) {
		struct quantizer q = quantizers[slot];

		q.rowwise = usages[i].rowwise;
		q.columnwise = usages[i].columnwise;
		q.order = usages[i].order;
		for (size_t n = 0; backends[n]; n++) {
			if (large && n != i)
				continue;
			if (!backends[n]->unusable())
				golden_usage_check(g, op, backends[n], &q);
		}
	}
	recipe_state_release(&state);
}

void golden_slots_each(void (*check)(const struct text *g, const struct input *in, void *context),
		       void *context)
{
	struct input in = { 0 };
	size_t n_slots = 0;
	struct text g;

	text_open(&g, GOLDEN_DIR "quantizer.txt");
	while (text_next(&g)) {
		if (!strcmp(g.fields[0], "input")) {
			input_init(&in, g.fields + 1);
		} else {
			check(&g, &in, context);
			n_slots++;
		}
	}
	free(in.data);
	assert_true(n_slots >= 15 * 14);
}
