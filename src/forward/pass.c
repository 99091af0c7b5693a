/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/pass.h"

void pass_observed(const struct pass *pass, const struct observation *observation)
{
	const struct observer *observer = pass->forward->observer;

	if (observer)
		observer->observe(observer->context, observation);
}

void pass_observe(const struct pass *pass, const struct observation *observation)
{
	struct workspace *w = pass->workspace;

	w->ops->amax(w->stream, observation->values, observation->n_rows * observation->n_cols,
		     &pass->sequence->stats[observation->slot]);
	pass_observed(pass, observation);
}

bool pass_keeps(const struct pass *pass, bool ends)
{
	const struct forward *forward = pass->forward;

	return !ends || forward->input != DT_BF16 || forward->casts ||
	       (forward->observer && !forward->observer->reads_no_inputs);
}

/* Returns the codes to which inputs are rounded; NULL if they are not, or cast before. */
static uint16_t *codes_for(const struct pass *pass, uint16_t *codes)
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
		.x = x, .n = n, .codes = codes_for(pass, codes), .slot = slot
	};
	return (struct rounded_out){ &pass->sequence->stats[slot], codes_for(pass, codes) };
}

/* Takes an input that is ready; returns whether x in this slot is one. */
static bool ready_take(struct workspace *w, const struct ready_input *ready, const float *x,
		       size_t slot)
{
	if (!ready->x || ready->slot != slot || x < ready->x || x >= ready->x + ready->n)
		return false;
	w->input.rounded_from = ready->codes ? x : NULL;
	w->input.codes = ready->codes + (ready->codes ? x - ready->x : 0);
	return true;
}

static void input_round(const struct pass *pass, const struct observation *x, bool ends)
{
	struct workspace *w = pass->workspace;
	uint16_t *codes = codes_for(pass, w->input.rounded);
	struct value_stats *stats = &pass->sequence->stats[x->slot];
	size_t n = x->n_rows * x->n_cols;
	const struct round_args args = { .x = x->values,
					 .n = n,
					 .y = pass_keeps(pass, ends) ? (float *)x->values : NULL,
					 .rounded = { stats, codes } };

	w->input.rounded_from = NULL;
	if (!pass->forward->round) {
		w->ops->amax(w->stream, x->values, n, stats);
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

void pass_observe_out(const struct pass *pass)
{
	struct workspace *w = pass->workspace;

	if (w->own->out_stats)
		w->ops->amax(w->stream, w->own->out,
			     pass->sequence->n_tokens * pass->forward->model->hidden,
			     w->own->out_stats);
	w->own->out_stats = NULL;
}

/* Do the casts give the same values? */
static bool casts_equal(const struct input_cast *a, const struct input_cast *b)
{
	return qspec_equal(&a->spec, &b->spec) && a->scale == b->scale &&
	       a->scale_inv == b->scale_inv;
}

/* Returns the values of an input in FP8, as the type of products.  counts: NULL: none. */
static const void *cast(const struct pass *pass, const struct linear *linear,
			const struct observation *x, struct cast_counts *counts)
{
	struct workspace *w = pass->workspace;
	const struct input_cast *by = linear->cast;
	const struct round_fp8_args args = { .x = x->values,
					     .n_rows = x->n_rows,
					     .n_cols = x->n_cols,
					     .spec = by->spec,
					     .scale = by->scale,
					     .scale_inv = by->scale_inv,
					     .y = w->cast.values,
					     .dtype = linear->input,
					     .counts = counts,
					     .scratch = w->cast.scratch };

	if (by->stats != SIZE_MAX)
		w->ops->amax(w->stream, x->values, x->n_rows * x->n_cols,
			     &w->cast.stats[by->stats]);
	if (w->cast.from == x->values && w->cast.dtype == linear->input &&
	    casts_equal(&w->cast.by, by))
		return w->cast.values; /* another matrix with the same x */
	w->ops->round_fp8(w->stream, &args);
	w->cast.from = x->values;
	w->cast.by = *by;
	w->cast.dtype = linear->input;
	return w->cast.values;
}

/* Returns what is multiplied in the place of x. */
static const void *prepare(const struct pass *pass, const struct linear *linear,
			   const struct observation *x, struct cast_counts *counts)
{
	struct workspace *w = pass->workspace;

	if (linear->cast)
		return cast(pass, linear, x, counts);
	if (linear->input != DT_BF16)
		return x->values;
	if (w->input.rounded_from == x->values)
		return w->input.codes;
	w->input.codes = w->input.rounded;
	w->ops->round_bf16(w->stream, x->values, x->n_rows * x->n_cols, w->input.rounded);
	w->input.rounded_from = x->values;
	return w->input.codes;
}

const void *pass_input(const struct pass *pass, const struct linear *linear,
		       const struct observation *x)
{
	pass_observed(pass, x);
	return prepare(pass, linear, x, NULL);
}

int forward_linear(const struct pass *pass, const struct linear *linear, const float *x, size_t m,
		   float *y, struct err *err)
{
	struct workspace *w = pass->workspace;
	const struct observation observation = { .values = x,
						 .n_rows = m,
						 .n_cols = linear->ref->k };
	size_t counts_size = pass->forward->casts ? sizeof *w->cast.counts : 0;
	const void *input;

	w->input.rounded_from = w->cast.from = NULL;
	w->ops->zero(w->stream, w->cast.counts, counts_size);
	input = prepare(pass, linear, &observation, w->cast.counts);
	w->ops->multiply(w->stream, &linear->weight, input, m, y);
	if (linear->bias)
		w->ops->add_row(w->stream, y, linear->bias, m, linear->ref->n);
	w->ops->fetch(w->stream, w->host.cast_counts, w->cast.counts, counts_size);
	w->input.rounded_from = w->cast.from = NULL;
	return w->ops->wait(w->stream, err);
}

/* Adds the bias to y, and calls the observer. */
static void output(const struct pass *pass, const struct linear *linear, float *y, size_t first,
		   struct observation *observation)
{
	struct workspace *w = pass->workspace;

	if (linear->bias)
		w->ops->add_row(w->stream, y, linear->bias + first, observation->n_rows,
				observation->n_cols);
	observation->what = OBSERVED_Y;
	observation->values = y;
	pass_observed(pass, observation);
}

void pass_output(const struct pass *pass, const struct linear *linear, float *y, size_t first,
		 struct observation observation)
{
	struct workspace *w = pass->workspace;

	output(pass, linear, y, first, &observation);
	w->ops->amax(w->stream, y, observation.n_rows * observation.n_cols,
		     &pass->sequence->stats[observation.slot]);
}

size_t pass_rows(const struct pass *pass, size_t n)
{
	return pass->forward->casts ? SIZE_MAX : pass->workspace->ops->rows(n);
}

/* Computes the products of rows [first, first + m). */
static void products_rows(const struct pass *pass, const struct products *products, size_t first,
			  size_t m)
{
	struct workspace *w = pass->workspace;
	size_t k = products->linears[0]->ref->k;
	struct observation x = pass_round(pass, products->x + first * k, m, k, products->x_ends);

	for (size_t i = 0; i < products->n; i++) {
		const struct linear *linear = products->linears[i];
		float *y = products->ys[i] + first * linear->ref->n;
		struct observation observed;

		x.linear = linear->ref;
		w->ops->multiply(w->stream, &linear->weight, pass_input(pass, linear, &x), m, y);
		observed = x;
		observed.n_cols = linear->ref->n;
		observed.slot = w->own->n_slots_used++;
		if (products->y_stats) {
			output(pass, linear, y, 0, &observed);
			products->y_stats[i] = &pass->sequence->stats[observed.slot];
		} else {
			pass_output(pass, linear, y, 0, observed);
		}
	}
}

void pass_products(const struct pass *pass, const struct products *products)
{
	struct workspace *w = pass->workspace;
	size_t n_values = products->linears[0]->ref->k, first_slot = w->own->n_slots_used, max_rows;

	for (size_t i = 0; i < products->n; i++)
		n_values += products->linears[i]->ref->n;
	max_rows = pass_rows(pass, n_values);
	for (size_t row = 0; row < products->m; row += max_rows) {
		size_t left = products->m - row;

		w->own->n_slots_used = first_slot;
		products_rows(pass, products, row, left < max_rows ? left : max_rows);
	}
	w->ready = (struct ready_input){ 0 };
}

void pass_linear(const struct pass *pass, const struct linear *linear, float *x, size_t m, float *y)
{
	const struct products products = { .linears = &linear, .n = 1, .x = x, .m = m, .ys = &y };

	pass_products(pass, &products);
}

struct rms_norm_args pass_norm_args(const struct pass *pass, const float *x, const float *weight,
				    float *y)
{
	const struct model *model = pass->forward->model;

	return (struct rms_norm_args){ .x = { x, model->hidden },
				       .weight = weight,
				       .centered = model->arch->layer_norm,
				       .offset = model->norm_offset,
				       .eps = model->norm_eps,
				       .n_rows = pass->sequence->n_tokens,
				       .n_cols = model->hidden,
				       .y = { y, model->hidden } };
}

void pass_norm(const struct pass *pass, struct rows_in x, const float *weight, struct rows_out y,
	       size_t n_rows, size_t n_cols)
{
	const struct rms_norm_args args = { .x = x,
					    .weight = weight,
					    .centered = pass->forward->model->arch->layer_norm,
					    .offset = pass->forward->model->norm_offset,
					    .eps = pass->forward->model->norm_eps,
					    .n_rows = n_rows,
					    .n_cols = n_cols,
					    .y = y };

	pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
}

void pass_norm_tokens(const struct pass *pass, const float *x, const float *weight, float *y)
{
	const struct rms_norm_args args = pass_norm_args(pass, x, weight, y);

	pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
}

void pass_add(const struct pass *pass, float *x, const float *y, size_t n)
{
	const struct add_args args = { .x = x, .y = y, .n = n };

	pass->workspace->ops->add(pass->workspace->stream, &args);
}

void pass_scale(const struct pass *pass, float *x, float factor, size_t n_rows, size_t n_cols)
{
	const struct scale_args args = {
		.x = { x, n_cols }, .factor = factor, .n_rows = n_rows, .n_cols = n_cols
	};

	if (factor != 1)
		pass->workspace->ops->scale(pass->workspace->stream, &args);
}

void pass_copy_tokens(const struct pass *pass, const float *x, float *y)
{
	size_t hidden = pass->forward->model->hidden;
	const struct copy_args args = { .y = { y, hidden },
					.x = { x, hidden },
					.repeat = 1,
					.n_rows = pass->sequence->n_tokens,
					.n_cols = hidden };

	pass->workspace->ops->copy(pass->workspace->stream, &args);
}
