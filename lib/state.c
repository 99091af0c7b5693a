/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lib/device.h"
#include "lib/quantize.h"
#include "num/history.h"

#define N_GEMMS_MAX ((size_t)1 << 20)
#define AMAXES_MAX  ((size_t)1 << 26)

static int create(struct fp8conv_context *context, const struct fp8conv_recipe *recipe, int mode,
		  size_t n_gemms, struct fp8conv_state **state, struct err *err)
{
	struct fp8conv_state *made;

	if (!recipe || !state)
		return err_set(err, ERR_USAGE, "%s is NULL", recipe ? "state" : "recipe");
	if (word_check(mode, MODE_BACKWARD + 1, "mode", err))
		return -1;
	if (n_gemms < 1 || n_gemms > N_GEMMS_MAX ||
	    n_gemms * N_FORWARD_SLOTS * (size_t)(recipe->row.amax_history_len + 1) > AMAXES_MAX)
		return err_set(err, ERR_USAGE, "n_gemms is %zu, which is 0 or too large", n_gemms);
	made = xcalloc(1, sizeof *made);
	made->context = context;
	atomic_fetch_add(&context->n_owners, 1);
	recipe_state_init(&made->state, &recipe->row, (enum fp8_mode)mode, n_gemms);
	made->quantizers = xcalloc(made->state.n_slots, sizeof *made->quantizers);
	recipe_state_make_quantizers(&made->state, made->quantizers);
	*state = made;
	return 0;
}

EXPORTED int fp8conv_state_create(struct fp8conv_context *context,
				  const struct fp8conv_recipe *recipe, int mode, size_t n_gemms,
				  struct fp8conv_state **state, struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = create(context, recipe, mode, n_gemms, state, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}

void state_free(struct fp8conv_state *state)
{
	recipe_state_release(&state->state);
	free(state->quantizers);
	context_drop(state->context);
	free(state);
}

/* A state that waits for the end of its step lives until then. */
EXPORTED void fp8conv_state_destroy(struct fp8conv_state *state)
{
	if (!state)
		return;
	if (!state->state.touched || atomic_load(&state->context->destroyed)) {
		state_free(state);
		return;
	}
	state->next = state->context->dead;
	state->context->dead = state;
}

/* Raises the amax of the slot to that of all matrices of x. */
static int calibrate(const struct fp8conv_state *state, float *raised,
		     const struct fp8conv_tensor *x, struct err *err)
{
	struct device_work work = { NULL, NULL };
	struct stack stack;
	float *amax;
	int rc = 0;

	if (tensor_read_anywhere(x, "x", &stack, err) || stack_check_float(&stack, "x", err) ||
	    device_work_begin(state->context, x, "x", &work, err))
		return -1;
	amax = xcalloc(stack.n, sizeof *amax);
	if (raised && work.ops)
		device_work_amax(&work, &stack, amax, true);
	else if (raised)
		rc = amax_stack(state->context, &stack, amax, err);
	rc = device_work_end(&work, rc, err);
	for (size_t i = 0; raised && !rc && i < stack.n; i++)
		*raised = amax_max(*raised, amax[i]);
	free(amax);
	return rc;
}

static int quantize_slot(struct fp8conv_state *state, size_t slot, const struct fp8conv_tensor *x,
			 struct fp8conv_quantized *out, struct err *err)
{
	struct quantizer q;

	if (slot >= state->state.n_slots)
		return err_set(err, ERR_USAGE, "slot is %zu of %zu", slot, state->state.n_slots);
	q = state->quantizers[slot];
	if (out ? quantize_stack(state->context, &q, x, out, err)
		: calibrate(state, q.amax, x, err))
		return -1;
	context_touch(&state->context->contexts, &state->state);
	return 0;
}

EXPORTED int fp8conv_state_quantize(struct fp8conv_state *state, size_t slot,
				    const struct fp8conv_tensor *x, struct fp8conv_quantized *out,
				    struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc;

	if (!state) {
		err_set(&err, ERR_USAGE, "state is NULL");
		return error_out(-1, &err, error);
	}
	rc = context_take(state->context, &err);
	if (!rc) {
		rc = quantize_slot(state, slot, x, out, &err);
		context_leave(state->context);
	}
	return error_out(rc, &err, error);
}

/* Checks the arrays of the caller against the state's history. */
static int history_check(const struct fp8conv_state *state, const struct fp8conv_history *history,
			 struct err *err)
{
	const struct history *own;

	if (!state)
		return err_set(err, ERR_USAGE, "state is NULL");
	if (size_check(history, sizeof *history, "history", err))
		return -1;
	own = &state->state.history;
	if ((history->amax || history->scale) &&
	    (history->length != own->len || history->n_slots != own->n_slots))
		return err_set(err, ERR_USAGE,
			       "history has %zu steps of %zu slots, the state has %zu of %zu",
			       history->length, history->n_slots, own->len, own->n_slots);
	return 0;
}

EXPORTED int fp8conv_history_get(const struct fp8conv_state *state, struct fp8conv_history *history,
				 struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = history_check(state, history, &err);
	const struct history *own;

	if (!rc)
		rc = context_take(state->context, &err);
	if (rc)
		return error_out(rc, &err, error);
	own = &state->state.history;
	history->length = own->len;
	history->n_slots = own->n_slots;
	if (history->amax && own->n_slots)
		memcpy(history->amax, own->amax, own->len * own->n_slots * sizeof *own->amax);
	if (history->scale && own->n_slots)
		memcpy(history->scale, own->scale, own->n_slots * sizeof *own->scale);
	context_leave(state->context);
	return error_out(0, &err, error);
}

/* Fails at a number that no step leaves behind. */
static int history_values_check(const struct fp8conv_history *history, struct err *err)
{
	for (size_t i = 0; history->amax && i < history->length * history->n_slots; i++)
		if (!(history->amax[i] >= 0))
			return err_set(err, ERR_USAGE, "history: amax %zu of slot %zu is %g",
				       i / history->n_slots, i % history->n_slots,
				       (double)history->amax[i]);
	for (size_t i = 0; history->scale && i < history->n_slots; i++)
		if (!(history->scale[i] > 0) || f32_is_inf(history->scale[i]))
			return err_set(err, ERR_USAGE, "history: the scale of slot %zu is %g", i,
				       (double)history->scale[i]);
	return 0;
}

EXPORTED int fp8conv_history_set(struct fp8conv_state *state, const struct fp8conv_history *history,
				 struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = history_check(state, history, &err);
	struct history *own;

	rc = rc ? rc : history_values_check(history, &err);
	if (!rc)
		rc = context_take(state->context, &err);
	if (rc)
		return error_out(rc, &err, error);
	own = &state->state.history;
	if (history->amax && own->n_slots)
		memcpy(own->amax, history->amax, own->len * own->n_slots * sizeof *own->amax);
	if (history->scale && own->n_slots)
		memcpy(own->scale, history->scale, own->n_slots * sizeof *own->scale);
	context_leave(state->context);
	return error_out(0, &err, error);
}
