/* SPDX-License-Identifier: Apache-2.0
 *
 * The FP8 settings of running modules: TransformerEngine's fp8_autocast.  Contexts nest.  The exit
 * of the outermost one ends the step and updates every touched state once.
 *
 *	enabled		modules quantize, and their GEMMs take FP8
 *	calibrating	modules compute in high precision, and call quantizer_calibrate()
 *			with their inputs and weights
 *	both		inputs of later modules have been through FP8
 *
 * Order: context_enter(); context_touch() for each module that runs; context_exit().
 */
#ifndef FP8CONV_QUANTIZER_CONTEXT_H
#define FP8CONV_QUANTIZER_CONTEXT_H

#include "ranks/group.h"
#include "quantizer/state.h"

struct context {
	bool enabled;
	bool calibrating;
	/* products take decoded values in high precision, which all backends support */
	bool emulated;
	const struct recipe *recipe; /* may be NULL unless enabled or calibrating */
	const struct group *group;   /* whose ranks reduce amaxes; NULL: one process */
};

/* The contexts of one rank; the caller that runs the model owns it.  { .backend = ... } is a stack
 * outside of all contexts. */
struct context_stack {
	const struct backend *backend;
	struct context now;
	int depth;
	struct touched *touched; /* in the order of the first touch */
	size_t n_touched;
};

void context_stack_release(struct context_stack *stack);

/* Returns 0 where GEMMs of the backend take operands of the recipe, else the backend's error. */
int context_supports(const struct backend *backend, const struct recipe *recipe, struct err *err);

/* Enters a context, and saves the current one in *outer.  Fails with the backend's error, and
 * changes nothing, where the context is enabled and not emulated and the backend does not support
 * its recipe. */
int context_enter(struct context_stack *stack, const struct context *context, struct context *outer,
		  struct err *err);

/* Returns to outer.  The outermost exit reduces h[0] of the touched states whose recipe has
 * reduce_amax over the group of their first touch, and updates all touched states in one call of
 * the backend.  All ranks of a group must have touched the same states in the same order.  Where a
 * reduction or the update fails, the states stay unchanged. */
int context_exit(struct context_stack *stack, const struct context *outer, struct err *err);

/* Notes that a module with this state runs: the end of the step updates the state if the context is
 * enabled or calibrating.  The state must outlive the step. */
void context_touch(struct context_stack *stack, struct recipe_state *state);

#endif
