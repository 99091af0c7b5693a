/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a recipe for one module and mode.  It owns the amax history and the scales of its
 * slots; recipes that take scales from the tensor itself have none to own.
 */
#ifndef FP8CONV_QUANTIZER_STATE_H
#define FP8CONV_QUANTIZER_STATE_H

#include "quantizer/history.h"
#include "quantizer/quantizer.h"
#include "recipe/recipe.h"

enum fp8_mode { MODE_FORWARD, MODE_BACKWARD };

/* The slots of a GEMM, in this order; those of the next one follow. */
enum { SLOT_INPUT, SLOT_WEIGHT, SLOT_OUTPUT, N_FORWARD_SLOTS };
enum { SLOT_GRAD_OUTPUT, SLOT_GRAD_INPUT, N_BACKWARD_SLOTS };

/* A zeroed struct is one of no slots. */
struct recipe_state {
	const struct recipe *recipe;
	enum fp8_mode mode;
	size_t n_slots;
	struct history history; /* of delayed scaling */
	bool touched;		/* a context will update it (context.h) */
};

/* recipe must outlive the state. */
void recipe_state_init(struct recipe_state *state, const struct recipe *recipe, enum fp8_mode mode,
		       size_t n_gemms);
void recipe_state_release(struct recipe_state *state);

/* quantizers: (n_slots), with both usages and padded scales; they point into the state. */
void recipe_state_make_quantizers(struct recipe_state *state, struct quantizer *quantizers);

/* What backend_delayed_update() takes of the state at the end of a step.  reduced: (n_slots), the
 * amaxes of this step, as the reduction left them; they stay the caller's. */
struct delayed_slots recipe_state_slots(struct recipe_state *state, const float *reduced);

/* That update of one state, here and now: where steps of the past are gone through again. */
void recipe_state_update(struct recipe_state *state, const float *reduced);

#endif
