/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of products: rounded, or cast to FP8, once for all matrices that share it.
 */
#include "forward/pass.h"

bool pass_keeps(const struct pass *pass, bool ends)
{
	const struct forward *forward = pass->forward;

	return !ends || forward->input != DT_BF16 || forward->casts ||
	       (forward->observer && !forward->observer->reads_no_inputs);
}

uint16_t *pass_codes(const struct pass *pass, uint16_t *codes)
{
	const struct forward *forward = pass->forward;

	return forward->input == DT_BF16 && !forward->casts ? codes : NULL;
}

struct rounded_out pass_ready(const struct pass *pass, struct ready_input *ready, const float *x,
			      size_t n, uint16_t *codes)
{
	size_t slot = pass->workspace->own->n_slots_used;

	*ready = (struct ready_input){ 0 };
	if (!pass->forward->round)
		return (struct rounded_out){ 0 };
	*ready = (struct ready_input){
		.x = x, .n = n, .codes = pass_codes(pass, codes), .slot = slot
	};
	return (struct rounded_out){ &pass->sequence->stats[slot], pass_codes(pass, codes) };
}

/* Takes an input that is ready; returns whether x in this slot is one. */
static bool ready_take(struct workspace *w, const struct ready_input *ready, const float *x,
		       size_t slot)
{
	if (!ready->x || ready->slot != slot || x < ready->x || x >= ready->x + ready->n)
		return false;
	w->input.rounded_from = ready->codes ? x : NULL;
	w->input.codes = ready->codes ? ready->codes + (x - ready->x) : NULL;
	return true;
}

static void input_round(const struct pass *pass, const struct observation *x, bool ends)
{
	struct workspace *w = pass->workspace;
	uint16_t *codes = pass_codes(pass, w->input.rounded);
	struct value_stats *stats = &pass->sequence->stats[x->slot];
	size_t n = x->n_rows * x->n_cols;
	const struct round_args args = { .x = x->values,
					 .n = n,
					 .y = pass_keeps(pass, ends) ? (float *)x->values : NULL,
					 .rounded = { stats, codes } };

	w->input.rounded_from = NULL;
	if (!pass->forward->round) {
		pass_amax(pass, x->values, n, stats);
		return;
	}
	w->ops->round(w->stream, &args);
	w->input.rounded_from = codes ? x->values : NULL;
	w->input.codes = codes;
}

struct observation pass_round(const struct pass *pass, float *x, size_t m, size_t k, bool ends)
{
	struct workspace *w = pass->workspace;
	const struct observation observation = { .what = OBSERVED_X,
						 .layer = pass->layer ? pass->layer->ref : NULL,
						 .worker = w->number,
						 .stream = w->stream,
						 .sequence = pass->sequence->index,
						 .values = x,
						 .n_rows = m,
						 .n_cols = k,
						 .slot = w->own->n_slots_used++ };

	if (!ready_take(w, &w->own->ready, x, observation.slot) &&
	    !ready_take(w, &w->ready, x, observation.slot))
		input_round(pass, &observation, ends);
	w->cast.from = NULL;
	return observation;
}

/* Do the casts give the same values? */
static bool casts_equal(const struct input_cast *a, const struct input_cast *b)
{
	return qspec_equal(&a->spec, &b->spec) && a->scale == b->scale &&
	       a->scale_inv == b->scale_inv;
}

bool pass_inputs_equal(const struct linear *a, const struct linear *b)
{
	if (a->input != b->input || !a->cast != !b->cast)
		return false;
	return !a->cast || (casts_equal(a->cast, b->cast) && a->cast->stats == b->cast->stats);
}

/* Does the cast take its scale from all rows? */
static bool is_whole(const struct input_cast *cast)
{
	return cast->spec.arith != ARITH_GIVEN && cast->spec.tile.rows == WHOLE;
}

static void cast_run(const struct pass *pass, const struct linear *linear,
		     const struct input_rows *x)
{
	struct workspace *w = pass->workspace;
	const struct input_cast *by = linear->cast;
	bool whole = x->segments && is_whole(by);
	const struct round_fp8_args args = { .x = x->values,
					     .n_rows = x->n_rows,
					     .n_cols = x->n_cols,
					     .spec = by->spec,
					     .scale = by->scale,
					     .scale_inv = by->scale_inv,
					     .y = w->cast.values,
					     .dtype = linear->input,
					     .counts = x->counts,
					     .segments = whole ? x->segments : NULL,
					     .n_segments = x->n_segments,
					     .scratch = w->cast.scratch };

	w->ops->round_fp8(w->stream, &args);
}

/* Adds the amax of x to the stats of a cast, unless another cast's stats have it. */
static void add_amax(const struct pass *pass, const struct input_cast *by,
		     const struct input_rows *x, bool again)
{
	struct workspace *w = pass->workspace;

	if (!again) {
		w->cast.place = by->stats;
		pass_amax(pass, x->values, x->n_rows * x->n_cols, &w->cast.stats[by->stats]);
	}
	w->host.cast_places[by->stats] = w->cast.place;
}

/* Returns the values of an input in FP8, as the type of products. */
static const void *cast(const struct pass *pass, const struct linear *linear,
			const struct input_rows *x)
{
	struct workspace *w = pass->workspace;
	const struct input_cast *by = linear->cast;
	bool again = w->cast.from == x->values; /* for another matrix */

	if (by->stats != SIZE_MAX)
		add_amax(pass, by, x, again);
	if (again && w->cast.dtype == linear->input && casts_equal(&w->cast.by, by))
		return w->cast.values;
	cast_run(pass, linear, x);
	w->cast.from = x->values;
	w->cast.by = *by;
	w->cast.dtype = linear->input;
	return w->cast.values;
}

const void *pass_prepare(const struct pass *pass, const struct linear *linear,
			 const struct input_rows *x)
{
	struct workspace *w = pass->workspace;
	const struct round_args round = { .x = x->values,
					  .n = x->n_rows * x->n_cols,
					  .rounded = { .codes = w->input.rounded } };

	if (linear->cast)
		return cast(pass, linear, x);
	if (linear->input != DT_BF16)
		return x->values;
	if (w->input.rounded_from == x->values)
		return w->input.codes;
	w->input.codes = w->input.rounded;
	w->ops->round(w->stream, &round);
	w->input.rounded_from = x->values;
	return w->input.codes;
}

const void *pass_input(const struct pass *pass, const struct linear *linear,
		       const struct observation *x)
{
	const struct input_rows rows = { .values = x->values,
					 .n_rows = x->n_rows,
					 .n_cols = x->n_cols };

	pass_observed(pass, x);
	return pass_prepare(pass, linear, &rows);
}
