/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"

struct touched {
	struct recipe_state *state; /* NULL: updated */
	const struct group *group;
};

void context_stack_release(struct context_stack *stack)
{
	free(stack->touched);
	*stack = (struct context_stack){ 0 };
}

static int recipe_supported(const struct recipe *recipe, const struct backend *backend,
			    struct err *err)
{
	const struct qspec *specs[] = { &recipe->input, &recipe->weight, &recipe->grad };

	for (int i = 0; i < 3; i++)
		if (backend_supports(backend, specs[i], err))
			return err_wrap(err, "recipe '%s' cannot run on backend '%s'", recipe->name,
					backend->name);
	return 0;
}

int context_enter(struct context_stack *stack, const struct context *wanted, struct context *outer,
		  struct err *err)
{
	assert(wanted->recipe || !(wanted->enabled || wanted->calibrating));
	if (wanted->enabled && recipe_supported(wanted->recipe, stack->backend, err))
		return -1;
	*outer = stack->now;
	stack->now = *wanted;
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

/* h[0] of the states from first on that share its group, one after the other.  Returns how many. */
static size_t amaxes_gather(const struct context_stack *stack, size_t first, float *amaxes)
{
	size_t n = 0;

	for (size_t i = first; i < stack->n_touched; i++) {
		const struct touched *t = &stack->touched[i];

		if (!t->state || t->group != stack->touched[first].group)
			continue;
		memcpy(amaxes + n, t->state->history.amax, t->state->n_slots * sizeof *amaxes);
		n += t->state->n_slots;
	}
	return n;
}

/* The way back. */
static void states_update(struct context_stack *stack, size_t first, const float *reduced)
{
	const struct group *group = stack->touched[first].group;

	for (size_t i = first; i < stack->n_touched; i++) {
		struct touched *t = &stack->touched[i];

		if (!t->state || t->group != group)
			continue;
		recipe_state_update(t->state, reduced);
		reduced += t->state->n_slots;
		t->state = NULL;
	}
}

/* One reduction for each group, as TransformerEngine's reduce_and_update_fp8_tensors(). */
static int reduce_and_update(struct context_stack *stack, struct err *err)
{
	size_t n_slots = 0;
	float *amaxes;
	int rc = 0;

	for (size_t i = 0; i < stack->n_touched; i++) {
		stack->touched[i].state->touched = false;
		n_slots += stack->touched[i].state->n_slots;
	}
	amaxes = xcalloc(n_slots, sizeof *amaxes);
	for (size_t i = 0; !rc && i < stack->n_touched; i++) {
		if (!stack->touched[i].state)
			continue;
		n_slots = amaxes_gather(stack, i, amaxes);
		rc = group_reduce_max(stack->touched[i].group, amaxes, n_slots, err);
		if (!rc)
			states_update(stack, i, amaxes);
	}
	free(amaxes);
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
