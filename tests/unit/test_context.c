/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: what is in force, when states are updated, what a backend may refuse; and groups of
 * threads that reduce their amaxes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "backend/dispatch.h"
#include "base/pool.h"
#include "quantizer/context.h"
#include "tests/unit/support/rank_job.h"

#define N_RANKS 4

static const struct recipe *find(const char *name)
{
	return recipe_find(name, &(struct err){ 0 });
}

static struct context_stack stack_new(void)
{
	return (struct context_stack){ .backend = backend_select("auto", &(struct err){ 0 }) };
}

/* The amax of the last step that was updated; a history of 1024 has it at its end. */
static float last_amax(const struct recipe_state *s, size_t slot)
{
	return s->history.amax[(s->history.len - 1) * s->n_slots + slot];
}

static void contexts_nest(void **state)
{
	const struct context outer = { .enabled = true, .recipe = find("delayed") };
	const struct context inner = { .calibrating = true, .recipe = find("blockwise") };
	const struct context off = { .enabled = false };
	struct context_stack stack = stack_new();
	struct context saved[3];
	struct err err = { 0 };

	(void)state;
	assert_int_equal(context_enter(&stack, &outer, &saved[0], &err), 0);
	assert_int_equal(context_enter(&stack, &inner, &saved[1], &err), 0);
	assert_true(!stack.now.enabled && stack.now.calibrating);
	assert_string_equal(stack.now.recipe->name, "blockwise");
	assert_int_equal(context_enter(&stack, &off, &saved[2], &err), 0);
	assert_true(!stack.now.enabled && !stack.now.calibrating);
	assert_int_equal(context_exit(&stack, &saved[2], &err), 0);
	assert_true(stack.now.calibrating && stack.now.recipe == inner.recipe);
	assert_int_equal(context_exit(&stack, &saved[1], &err), 0);
	assert_true(stack.now.enabled && stack.now.recipe == outer.recipe);
	assert_int_equal(context_exit(&stack, &saved[0], &err), 0);
	assert_true(!stack.now.enabled && !stack.now.recipe && stack.depth == 0);
	context_stack_release(&stack);
}

/* However often a state is touched and however deep, it is updated once, when the outermost context
 * ends. */
static void a_state_is_updated_once_at_the_outermost_exit(void **state)
{
	const struct context on = { .enabled = true, .recipe = find("delayed") };
	const struct context off = { .enabled = false };
	struct context_stack stack = stack_new();
	struct context saved[3];
	struct recipe_state s, other, untouched;
	struct err err = { 0 };

	(void)state;
	recipe_state_init(&s, on.recipe, MODE_FORWARD, 1);
	recipe_state_init(&other, on.recipe, MODE_BACKWARD, 2);
	recipe_state_init(&untouched, on.recipe, MODE_FORWARD, 1);
	for (int step = 1; step <= 2; step++) {
		assert_int_equal(context_enter(&stack, &on, &saved[0], &err), 0);
		context_touch(&stack, &s);
		context_touch(&stack, &other);
		s.history.amax[SLOT_INPUT] = 14.0f * (float)step;
		other.history.amax[3] = 3.5f;
		untouched.history.amax[SLOT_INPUT] = 7;
		assert_int_equal(context_enter(&stack, &on, &saved[1], &err), 0);
		context_touch(&stack, &s);
		assert_int_equal(context_enter(&stack, &off, &saved[2], &err), 0);
		context_touch(&stack, &untouched);
		assert_int_equal(context_exit(&stack, &saved[2], &err), 0);
		assert_int_equal(context_exit(&stack, &saved[1], &err), 0);
		assert_true(s.history.amax[SLOT_INPUT] == 14.0f * (float)step); /* not yet */
		assert_true(s.history.scale[SLOT_INPUT] == (step == 1 ? 1 : 32));
		assert_int_equal(context_exit(&stack, &saved[0], &err), 0);
		assert_true(s.history.amax[SLOT_INPUT] == 0);
		assert_true(s.history.scale[SLOT_INPUT] == 32.0f / (float)step);
		assert_true(last_amax(&s, SLOT_INPUT) == 14.0f * (float)step);
	}
	/* Two steps, two entries. */
	assert_true(s.history.amax[(s.history.len - 2) * s.n_slots] == 14);
	assert_true(s.history.amax[(s.history.len - 3) * s.n_slots] == 0);
	assert_true(s.history.scale[SLOT_WEIGHT] == 1 && s.history.scale[SLOT_OUTPUT] == 1);
	assert_true(untouched.history.scale[0] == 1 && untouched.history.amax[0] == 7);
	assert_true(other.history.scale[0] == 1 && other.history.scale[3] == 16384);
	recipe_state_release(&s);
	recipe_state_release(&other);
	recipe_state_release(&untouched);
	context_stack_release(&stack);
}

/* Calibration keeps a history as well, and recipes without one have nothing to update. */
static void calibration_keeps_a_history(void **state)
{
	const struct context look = { .calibrating = true, .recipe = find("delayed") };
	struct context_stack stack = stack_new();
	struct context saved;
	struct recipe_state s, current;
	struct err err = { 0 };

	(void)state;
	recipe_state_init(&s, look.recipe, MODE_BACKWARD, 1);
	recipe_state_init(&current, find("current"), MODE_FORWARD, 1);
	assert_int_equal(context_enter(&stack, &look, &saved, &err), 0);
	context_touch(&stack, &s);
	context_touch(&stack, &current);
	s.history.amax[SLOT_GRAD_OUTPUT] = 7;
	assert_int_equal(context_exit(&stack, &saved, &err), 0);
	assert_true(s.history.scale[SLOT_GRAD_OUTPUT] == 8192); /* E5M2: 57344 / 7 */
	recipe_state_release(&s);
	recipe_state_release(&current);
	context_stack_release(&stack);
}

static int no_blocks(const struct qspec *spec, struct err *err)
{
	if (spec->tile.cols == 128)
		return err_set(err, ERR_USAGE, "compute capability 8.9, block scaling needs 9.0");
	return 0;
}

static void what_a_recipe_cannot_do_is_refused(void **state)
{
	const struct context block = { .enabled = true, .recipe = find("blockwise") };
	const struct context look = { .calibrating = true, .recipe = block.recipe };
	const struct context emulated = { .enabled = true,
					  .emulated = true,
					  .recipe = block.recipe };
	const struct context tensor = { .enabled = true, .recipe = find("current") };
	struct backend old = *backend_select("auto", &(struct err){ 0 });
	struct context_stack stack = { .backend = &old };
	struct context saved = { .enabled = false }, inner;
	struct err err = { 0 };

	(void)state;
	old.name = "old";
	old.supports = no_blocks;
	assert_int_equal(context_enter(&stack, &tensor, &saved, &err), 0);
	assert_int_equal(context_enter(&stack, &block, &inner, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "recipe 'blockwise' cannot run on backend 'old': compute "
					 "capability 8.9, block scaling needs 9.0");
	assert_true(stack.depth == 1 && stack.now.recipe == tensor.recipe);
	assert_int_equal(context_enter(&stack, &look, &inner, &err), 0); /* in high precision */
	assert_int_equal(context_exit(&stack, &inner, &err), 0);
	assert_int_equal(context_enter(&stack, &emulated, &inner, &err), 0);
	assert_int_equal(context_exit(&stack, &inner, &err), 0);
	assert_int_equal(context_exit(&stack, &saved, &err), 0);
	context_stack_release(&stack);
	for (const struct recipe *const *r = recipes; *r; r++) /* exact emulation */
		assert_int_equal(backend_supports(backend_select("cpu", &err), &(*r)->weight, &err),
				 0);
}

/* Each rank runs the same steps; its amaxes are of its own. */
struct ranks {
	struct group groups[N_RANKS];
	struct recipe reduced, alone;
	float scales[N_RANKS][2], last[N_RANKS][2];
};

static float amax_of(size_t rank, int step)
{
	return rank == (size_t)step % N_RANKS ? 28.0f * (float)(step + 1) : (float)rank + 1;
}

static int rank_steps(void *context, int worker, size_t rank, struct err *err)
{
	struct ranks *r = context;
	struct context_stack stack = stack_new();
	struct context on = { .enabled = true, .recipe = &r->reduced, .group = &r->groups[rank] },
		       saved;
	struct recipe_state s[2];
	int rc = 0;

	(void)worker;
	recipe_state_init(&s[0], &r->reduced, MODE_FORWARD, 1);
	recipe_state_init(&s[1], &r->alone, MODE_FORWARD, 2);
	for (int step = 0; step < 50 && !rc; step++) {
		rc = context_enter(&stack, &on, &saved, err);
		for (int i = 0; i < 2 && !rc; i++) {
			context_touch(&stack, &s[i]);
			s[i].history.amax[SLOT_WEIGHT] = amax_of(rank, step);
		}
		rc = rc ? rc : context_exit(&stack, &saved, err);
	}
	for (int i = 0; i < 2; i++) {
		r->scales[rank][i] = s[i].history.scale[SLOT_WEIGHT];
		r->last[rank][i] = last_amax(&s[i], SLOT_WEIGHT);
		recipe_state_release(&s[i]);
	}
	context_stack_release(&stack);
	return rc;
}

static void threads_reduce_to_the_largest_amax(void **state)
{
	struct ranks r = { .reduced = *find("delayed"), .alone = *find("delayed") };
	struct err err = { 0 };

	(void)state;
	r.reduced.amax_history_len = r.alone.amax_history_len = 8;
	r.alone.reduce_amax = false;
	group_threads_open(r.groups, N_RANKS);
	assert_int_equal(pool_run(N_RANKS, N_RANKS, rank_steps, &r, NULL, &err), 0);
	group_threads_close(r.groups);
	for (size_t rank = 0; rank < N_RANKS; rank++) {
		float own = 0;

		assert_true(r.last[rank][0] == 28 * 50); /* whoever had it */
		assert_true(r.scales[rank][0] == 448.0f / (28 * 50));
		for (int step = 42; step < 50; step++)
			own = fmaxf(own, amax_of(rank, step));
		assert_true(r.last[rank][1] == amax_of(rank, 49));
		assert_true(r.scales[rank][1] == 448.0f / own);
	}
}

/* Ranks that disagree all hear of it, and the group is as good as before. */
static int rank_disagrees(void *context, int worker, size_t rank, struct err *err)
{
	struct group *groups = context;
	float values[2] = { (float)rank, NAN };

	(void)worker;
	if (!group_reduce_max(&groups[rank], values, rank == 1 ? 1 : 2, err))
		return err_set(err, ERR_SYSTEM, "rank %zu was not told", rank);
	if (strcmp(err->message, "the ranks of a group have different numbers of values: 1 and 2"))
		return -1;
	if (group_reduce_max(&groups[rank], values, 2, err))
		return -1;
	if (values[0] != N_RANKS - 1 || values[1] != 0)
		return err_set(err, ERR_SYSTEM, "rank %zu: %g, %g", rank, (double)values[0],
			       (double)values[1]);
	return 0;
}

static void threads_that_disagree_are_told(void **state)
{
	struct group groups[N_RANKS];
	struct err err = { 0 };

	(void)state;
	group_threads_open(groups, N_RANKS);
	if (pool_run(N_RANKS, N_RANKS, rank_disagrees, groups, NULL, &err))
		fail_msg("%s", err.message);
	group_threads_close(groups);
}

static int broken_reduce(const struct group *group, enum group_op op, void *values, size_t n,
			 struct err *err)
{
	(void)group, (void)op, (void)values, (void)n;
	return err_set(err, ERR_SYSTEM, "the network is down");
}

/* Nothing is updated, and the context is left all the same. */
static void a_failed_reduction_updates_nothing(void **state)
{
	static const struct group_kind broken = { "broken", broken_reduce };
	struct group group = { .kind = &broken, .n_ranks = 2 };
	struct context on = { .enabled = true, .recipe = find("delayed"), .group = &group }, saved;
	struct context_stack stack = stack_new();
	struct recipe_state s;
	struct err err = { 0 };

	(void)state;
	recipe_state_init(&s, on.recipe, MODE_FORWARD, 1);
	assert_int_equal(context_enter(&stack, &on, &saved, &err), 0);
	context_touch(&stack, &s);
	s.history.amax[0] = 7;
	assert_int_equal(context_exit(&stack, &saved, &err), -1);
	assert_string_equal(err.message, "the network is down");
	assert_true(stack.depth == 0 && !stack.now.enabled && !s.touched);
	assert_true(s.history.amax[0] == 7 && s.history.scale[0] == 1);
	recipe_state_release(&s);
	context_stack_release(&stack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts_nest),
		cmocka_unit_test(a_state_is_updated_once_at_the_outermost_exit),
		cmocka_unit_test(calibration_keeps_a_history),
		cmocka_unit_test(what_a_recipe_cannot_do_is_refused),
		cmocka_unit_test(threads_reduce_to_the_largest_amax),
		cmocka_unit_test(threads_that_disagree_are_told),
		cmocka_unit_test(a_failed_reduction_updates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
