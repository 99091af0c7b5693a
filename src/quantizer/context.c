/* SPDX-License-Identifier: Apache-2.0 */
#include "quantizer/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"

struct touched {
	struct recipe_state *state; /* NULL: reduced */
	const struct group *group;
};

void context_stack_release(struct context_stack *stack)
{
	free(stack->touched);
	*stack = (struct context_stack){ 0 };
}

int context_supports(const struct backend *backend, const struct recipe *recipe, struct err *err)
{
	const struct qspec *specs[] = { &recipe->input, &recipe->weight, &recipe->grad };

	for (int i = 0; i < 3; i++)
		if (backend_supports(backend, specs[i], err))
			return err_wrap(err, "recipe '%s' cannot run on backend '%s'", recipe->name,
					backend->name);
	return 0;
}

int context_enter(struct context_stack *stack, const struct context *context, struct context *outer,
		  struct err *err)
{
	assert(context->recipe || !(context->enabled || context->calibrating));
	if (context->enabled && !context->emulated &&
	    context_supports(stack->backend, context->recipe, err))
		return -1;
	*outer = stack->now;
	stack->now = *context;
	stack->depth++;
	return 0;
}

void context_touch(struct context_stack *stack, struct recipe_state *state)
{
	if (!(stack->now.enabled || stack->now.calibrating))
		return;
	if (state->touched || state->history.n_slots == 0)
		return;
	state->touched = true;
	ARRAY_GROW(stack->touched, stack->n_touched);
	stack->touched[stack->n_touched++] =
		(struct touched){ state, state->recipe->reduce_amax ? stack->now.group : NULL };
}

/* Gathers h[0] of the states from `first` on that have the same group, and the slots to update.
 * Returns the number of amaxes. */
static size_t group_gather(struct context_stack *stack, size_t first, float *amaxes,
			   struct delayed_slots **slots)
{
	const struct group *group = stack->touched[first].group;
	size_t n = 0;

	for (size_t i = first; i < stack->n_touched; i++) {
		struct touched *t = &stack->touched[i];

		if (!t->state || t->group != group)
			continue;
		*(*slots)++ = recipe_state_slots(t->state, amaxes + n);
		memcpy(amaxes + n, t->state->history.amax, t->state->n_slots * sizeof *amaxes);
		n += t->state->n_slots;
		t->state = NULL;
	}
	return n;
}

/* Makes one reduction for each group, as TransformerEngine's reduce_and_update_fp8_tensors(), and
 * then the update of all slots. */
static int reduce_and_update(struct context_stack *stack, struct err *err)
{
	struct delayed_slots *slots = xcalloc(stack->n_touched, sizeof *slots), *next = slots;
	size_t n_slots = 0, n_reduced = 0;
	float *amaxes;
	int rc = 0;

	for (size_t i = 0; i < stack->n_touched; i++) {
		stack->touched[i].state->touched = false;
		n_slots += stack->touched[i].state->n_slots;
	}
	amaxes = xcalloc(n_slots, sizeof *amaxes);
	for (size_t i = 0; !rc && i < stack->n_touched; i++) {
		const struct group *group = stack->touched[i].group;
		size_t n;

		if (!stack->touched[i].state)
			continue;
		n = group_gather(stack, i, amaxes + n_reduced, &next);
		rc = group_reduce_max(group, amaxes + n_reduced, n, err);
		n_reduced += n;
	}
	for (size_t i = 0; !rc && i < stack->n_touched; i++)
		delayed_slots_update(&slots[i]);
	free(amaxes);
	free(slots);
	free(stack->touched);
	stack->touched = NULL;
	stack->n_touched = 0;
	return rc;
}

int context_exit(struct context_stack *stack, const struct context *outer, struct err *err)
{
	assert(stack->depth > 0);
	stack->now = *outer;
	if (--stack->depth > 0)
		return 0;
	return reduce_and_update(stack, err);
}
