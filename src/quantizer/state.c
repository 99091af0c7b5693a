/* SPDX-License-Identifier: Apache-2.0 */
#include "quantizer/state.h"

#include <stdlib.h>

#include "base/mem.h"

void history_init(struct history *history, size_t len, size_t n_slots)
{
	*history = (struct history){ .len = len, .n_slots = n_slots };
	history->amax = xcalloc(len * n_slots, sizeof *history->amax);
	history->scale = xcalloc(n_slots, sizeof *history->scale);
	history->fmax = xcalloc(n_slots, sizeof *history->fmax);
	for (size_t slot = 0; slot < n_slots; slot++)
		history->scale[slot] = 1;
}

void history_release(struct history *history)
{
	free(history->amax);
	free(history->scale);
	free(history->fmax);
	*history = (struct history){ 0 };
}

struct delayed_slots history_slots(const struct history *history, const float *reduced,
				   enum amax_algo algo)
{
	return (struct delayed_slots){ .len = history->len,
				       .n = history->n_slots,
				       .history = history->amax,
				       .scale = history->scale,
				       .fmax = history->fmax,
				       .reduced = reduced,
				       .algo = algo };
}

/* The output has the spec of the input, grad_input that of grad_output. */
static const struct qspec *slot_spec(const struct recipe_state *state, size_t slot)
{
	if (state->mode == MODE_BACKWARD)
		return &state->recipe->grad;
	return slot % N_FORWARD_SLOTS == SLOT_WEIGHT ? &state->recipe->weight
						     : &state->recipe->input;
}

void recipe_state_init(struct recipe_state *state, const struct recipe *recipe, enum fp8_mode mode,
		       size_t n_gemms)
{
	*state = (struct recipe_state){ .recipe = recipe, .mode = mode };
	state->n_slots = n_gemms * (mode == MODE_FORWARD ? N_FORWARD_SLOTS : N_BACKWARD_SLOTS);
	if (!recipe->needs_history)
		return;
	history_init(&state->history, (size_t)recipe->amax_history_len, state->n_slots);
	for (size_t slot = 0; slot < state->n_slots; slot++)
		state->history.fmax[slot] = scale_fmax(slot_spec(state, slot));
}

void recipe_state_release(struct recipe_state *state)
{
	history_release(&state->history);
	*state = (struct recipe_state){ 0 };
}

void recipe_state_make_quantizers(struct recipe_state *state, struct quantizer *quantizers)
{
	struct history *history = &state->history;

	for (size_t slot = 0; slot < state->n_slots; slot++)
		quantizers[slot] = (struct quantizer){
			.spec = *slot_spec(state, slot),
			.rowwise = true,
			.columnwise = true,
			.order = SCALES_PADDED,
			.scale = history->n_slots ? &history->scale[slot] : NULL,
			.amax = history->n_slots ? &history->amax[slot] : NULL,
		};
}

struct delayed_slots recipe_state_slots(struct recipe_state *state, const float *reduced)
{
	return history_slots(&state->history, reduced, state->recipe->amax_algo);
}

void recipe_state_update(struct recipe_state *state, const float *reduced)
{
	struct delayed_slots slots = recipe_state_slots(state, reduced);

	delayed_slots_update(&slots);
}
