/* SPDX-License-Identifier: Apache-2.0
 *
 * A line "slot ..." of quantizer.txt and fused.txt: one slot of a recipe's state, and what its
 * quantizer makes of a tensor in every usage and order of scales, on every backend.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_SLOT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_SLOT_H

#include "quantizer/quantizer.h"
#include "tests/unit/support/golden_input.h"
#include "tests/unit/support/golden_text.h"

/* The fields of a line. */
enum {
	FIELD_RECIPE = 1,
	FIELD_MODE,
	FIELD_SLOT,
	FIELD_SCALE,
	FIELD_BEFORE,
	FIELD_AFTER,
	FIELD_SATURATED,
	FIELD_NONFINITE,
	FIELD_ROWWISE,
	FIELD_COLUMNWISE = FIELD_ROWWISE + 4,
};

/* Runs the operation under test. */
struct operation {
	void (*run)(const void *args, const struct backend *backend, const struct quantizer *q,
		    struct quantized_tensor *t, struct quant_stats *stats);
	const void *args;
	size_t rows, cols; /* of its output */
};

/* Holds the operation against the line that g stands at: codes, scales, amax and counts.  Outputs
 * of more than 100,000 elements are made in the first two usages, by a backend each. */
void golden_slot_check(const struct text *g, const struct operation *op);

/* Calls check() for each slot of quantizer.txt with the input that stands before it.  Fails where
 * there are fewer than 15 inputs with the 14 slots of all recipes. */
void golden_slots_each(void (*check)(const struct text *g, const struct input *in, void *context),
		       void *context);

#endif
