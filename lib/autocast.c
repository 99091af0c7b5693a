/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts that nest, and a group whose reductions the caller makes.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "lib/state.h"
#include "num/history.h"

/* A group of the caller: one for each pair of function and argument, until the step ends. */
struct caller_group {
	struct group group;
	int (*reduce_max)(void *group, float *values, size_t n);
	void *argument;
	struct caller_group *next;
};

/* A value that is not a number becomes 0, before and after. */
static int caller_reduce(const struct group *group, enum group_op op, void *values, size_t n,
			 struct err *err)
{
	const struct caller_group *caller = group->shared;
	float *amaxes = values;
	int rc;

	if (op != GROUP_MAX)
		return err_set(err, ERR_USAGE, "a group of the caller takes maxima alone");
	for (size_t i = 0; i < n; i++)
		amaxes[i] = amax_max(amaxes[i], 0);
	rc = caller->reduce_max(caller->argument, amaxes, n);
	if (rc)
		return err_set(err, ERR_SYSTEM,
			       "the reduction of %zu amaxes over the group failed with %d", n, rc);
	for (size_t i = 0; i < n; i++)
		amaxes[i] = amax_max(amaxes[i], 0);
	return 0;
}

static const struct group_kind group_caller = { .name = "caller", .reduce = caller_reduce };

static const struct group *group_of(struct fp8conv_context *context,
				    const struct fp8conv_autocast *autocast)
{
	struct caller_group *group = context->groups;

	if (!autocast->reduce_max)
		return NULL;
	while (group &&
	       (group->reduce_max != autocast->reduce_max || group->argument != autocast->group))
		group = group->next;
	if (group)
		return &group->group;
	group = xcalloc(1, sizeof *group);
	*group = (struct caller_group){ { &group_caller, 0, 1, group, "" },
					autocast->reduce_max,
					autocast->group,
					context->groups };
	context->groups = group;
	return &group->group;
}

void autocast_release(struct fp8conv_context *context)
{
	struct caller_group *group;
	struct fp8conv_state *dead;

	while ((group = context->groups)) {
		context->groups = group->next;
		free(group);
	}
	while ((dead = context->dead)) {
		context->dead = dead->next;
		state_free(dead);
	}
}

static int enter(struct fp8conv_context *context, const struct fp8conv_autocast *autocast,
		 struct err *err)
{
	size_t depth = (size_t)context->contexts.depth;
	struct context entered;

	if (size_check(autocast, sizeof *autocast, "autocast", err))
		return -1;
	if (!autocast->recipe && (autocast->enabled || autocast->calibrating))
		return err_set(err, ERR_USAGE, "recipe is NULL in a context that is %s",
			       autocast->enabled ? "enabled" : "calibrating");
	entered = (struct context){ .enabled = autocast->enabled,
				    .calibrating = autocast->calibrating,
				    .recipe = autocast->recipe ? &autocast->recipe->row : NULL,
				    .group = group_of(context, autocast) };
	ARRAY_GROW(context->outer, depth);
	return context_enter(&context->contexts, &entered, &context->outer[depth], err);
}

EXPORTED int fp8conv_context_enter(struct fp8conv_context *context,
				   const struct fp8conv_autocast *autocast,
				   struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = enter(context, autocast, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}

static int leave(struct fp8conv_context *context, struct err *err)
{
	size_t depth = (size_t)context->contexts.depth;
	int rc;

	if (depth == 0)
		return err_set(err, ERR_USAGE, "no context was entered");
	rc = context_exit(&context->contexts, &context->outer[depth - 1], err);
	if (depth == 1)
		autocast_release(context);
	return rc;
}

EXPORTED int fp8conv_context_exit(struct fp8conv_context *context, struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = leave(context, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}
