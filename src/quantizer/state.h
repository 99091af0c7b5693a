/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a recipe for one module and mode.  It owns the amax history and the scales of its
 * slots; in recipes other than delayed scaling both are empty.
 *
 * Order: recipe_state_init(); recipe_state_make_quantizers(); at the end of each step the context
 * (context.h) updates the state, or recipe_state_update() does.
 */
#ifndef FP8CONV_QUANTIZER_STATE_H
#define FP8CONV_QUANTIZER_STATE_H

#include <stddef.h>

#include "num/history.h"
#include "quantizer/quantizer.h"
#include "recipe/recipe.h"

/* The amax history and the scales of the slots of a recipe state, in arrays by slot as the update
 * at the end of a step needs them (num/history.h).  A zeroed struct has no slots. */
struct history {
	size_t len; /* steps, >= 1 */
	size_t n_slots;
	float *amax;  /* (len, n_slots): row 0 is of the current step, row 1 of the oldest */
	float *scale; /* (n_slots): factors of the casts of this step */
	float *fmax;  /* (n_slots): scale_fmax() of the slot */
};

/* Allocates the arrays with amax 0 and scale 1.  The caller fills fmax, and releases history. */
void history_init(struct history *history, size_t len, size_t n_slots);
void history_release(struct history *history);

/* Returns the argument of delayed_slots_update() at the end of a step.  reduced: (n_slots), the
 * reduced amaxes of this step, which the caller owns.  The result points into history and
 * reduced. */
struct delayed_slots history_slots(const struct history *history, const float *reduced,
				   enum amax_algo algo);

enum fp8_mode { MODE_FORWARD, MODE_BACKWARD };

/* The slots of a GEMM, in this order; the next GEMM's follow. */
enum { SLOT_INPUT, SLOT_WEIGHT, SLOT_OUTPUT, N_FORWARD_SLOTS };
enum { SLOT_GRAD_OUTPUT, SLOT_GRAD_INPUT, N_BACKWARD_SLOTS };

/* A zeroed struct has no slots. */
struct recipe_state {
	const struct recipe *recipe;
	enum fp8_mode mode;
	size_t n_slots;
	struct history history; /* of delayed scaling */
	bool touched;		/* a context will update it (context.h) */
};

/* Makes the state of a module with n_gemms GEMMs.  recipe must outlive it; the caller releases
 * it. */
void recipe_state_init(struct recipe_state *state, const struct recipe *recipe, enum fp8_mode mode,
		       size_t n_gemms);
void recipe_state_release(struct recipe_state *state);

/* Fills quantizers (n_slots), with both usages and padded scales.  They point into the state. */
void recipe_state_make_quantizers(struct recipe_state *state, struct quantizer *quantizers);

/* Returns the argument of delayed_slots_update() at the end of a step.  reduced: (n_slots), the
 * reduced amaxes of this step, which the caller owns.  The result points into state and reduced. */
struct delayed_slots recipe_state_slots(struct recipe_state *state, const float *reduced);

/* Updates one state at once, for a caller that repeats the steps of a stored history. */
void recipe_state_update(struct recipe_state *state, const float *reduced);

#endif
