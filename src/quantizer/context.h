/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in force while modules run: TransformerEngine's fp8_autocast.  Contexts nest; leaving the
 * outermost one ends the step, and updates every state that was touched in it, once.
 *
 *	enabled		modules quantize, and their GEMMs take FP8
 *	calibrating	modules compute in high precision, and tell quantizer_calibrate()
 *			what they see
 *	both		what later modules see has been through FP8
 */
#ifndef FP8CONV_QUANTIZER_CONTEXT_H
#define FP8CONV_QUANTIZER_CONTEXT_H

#include "quantizer/group.h"
#include "quantizer/state.h"

struct context {
	bool enabled;
	bool calibrating;
	/* products are of decoded values, in high precision, which any backend can */
	bool emulated;
	const struct recipe *recipe; /* may be NULL where neither is set */
	const struct group *group;   /* over which amaxes are reduced; NULL: one process */
};

/* One rank's, owned by whoever runs the model.  { .backend = ... } is outside of all contexts. */
struct context_stack {
	const struct backend *backend;
	struct context now;
	int depth;
	struct touched *touched; /* in the order of the first touch */
	size_t n_touched;
};

void context_stack_release(struct context_stack *stack);

/* Puts wanted in force and the one before into *outer.  Where it is enabled, not emulated, and the
 * backend cannot do its recipe, that is the backend's error, and nothing changes. */
int context_enter(struct context_stack *stack, const struct context *wanted, struct context *outer,
		  struct err *err);

/* Puts outer back in force.  At the outermost exit h[0] of the touched states is reduced, over the
 * group of their first touch, where the recipe says reduce_amax, and all are updated; every rank of
 * a group must have touched the same in the same order.  The backend updates all in one call; where
 * a reduction or the update fails, the states are as they were. */
int context_exit(struct context_stack *stack, const struct context *outer, struct err *err);

/* A module with this state runs: the end of the step updates it, if the context is enabled or
 * calibrating.  The state must outlive the step. */
void context_touch(struct context_stack *stack, struct recipe_state *state);

#endif
