/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/pass.h"

static void observer_call(const struct pass *pass, const struct observation *observation)
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
	observer_call(pass, observation);
}

struct observation pass_round(const struct pass *pass, float *x, size_t m, size_t k)
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
	struct value_stats *stats = &pass->sequence->stats[observation.slot];

	if (pass->forward->round)
		w->ops->round_amax(w->stream, x, m * k, stats);
	else
		w->ops->amax(w->stream, x, m * k, stats);
	w->input.rounded_from = w->input.filtered_from = w->host.fetched_from = NULL;
	return observation;
}

/* Filters an input into workspace->input.filtered. */
static int filter(const struct pass *pass, const struct linear *linear, const struct observation *x,
		  struct err *err)
{
	const struct input_filter *filter = &pass->forward->filter;
	struct workspace *w = pass->workspace;
	const struct filter_input input = { linear, w->number, w->host.input, x->n_rows };
	size_t size = x->n_rows * x->n_cols * sizeof(float);
	const float *values;

	if (w->input.filtered_from == x->values && w->input.filtered_by == linear->module)
		return 0; /* another matrix with the same x */
	if (w->host.fetched_from != x->values)
		w->ops->fetch(w->stream, w->host.input, x->values, size);
	w->host.fetched_from = x->values;
	if (w->ops->wait(w->stream, err) || filter->apply(filter->context, &input, &values, err))
		return -1;
	w->ops->put(w->stream, w->input.filtered, values, size);
	w->input.filtered_from = x->values;
	w->input.filtered_by = linear->module;
	w->input.rounded_from = NULL;
	return 0;
}

/* Sets *input to what is multiplied in the place of x. */
static int prepare(const struct pass *pass, const struct linear *linear,
		   const struct observation *x, const void **input, struct err *err)
{
	struct workspace *w = pass->workspace;
	const float *values = x->values;

	if (linear->module) {
		if (filter(pass, linear, x, err))
			return -1;
		values = w->input.filtered;
	}
	*input = values;
	if (linear->input != DT_BF16)
		return 0;
	*input = w->input.rounded;
	if (w->input.rounded_from == values)
		return 0;
	w->ops->round_bf16(w->stream, values, x->n_rows * x->n_cols, w->input.rounded);
	w->input.rounded_from = values;
	return 0;
}

int pass_input(const struct pass *pass, const struct linear *linear, const struct observation *x,
	       const void **input, struct err *err)
{
	observer_call(pass, x);
	return prepare(pass, linear, x, input, err);
}

int forward_linear(const struct pass *pass, const struct linear *linear, const float *x, size_t m,
		   float *y, struct err *err)
{
	struct workspace *w = pass->workspace;
	const struct observation observation = { .values = x,
						 .n_rows = m,
						 .n_cols = linear->ref->k };
	const void *input;

	w->input.rounded_from = w->input.filtered_from = w->host.fetched_from = NULL;
	if (prepare(pass, linear, &observation, &input, err))
		return -1;
	w->ops->multiply(w->stream, &linear->weight, input, m, y);
	if (linear->bias)
		w->ops->add_row(w->stream, y, linear->bias, m, linear->ref->n);
	w->input.rounded_from = w->input.filtered_from = w->host.fetched_from = NULL;
	return w->ops->wait(w->stream, err);
}

void pass_output(const struct pass *pass, const struct linear *linear, float *y, size_t first,
		 struct observation observation)
{
	struct workspace *w = pass->workspace;

	if (linear->bias)
		w->ops->add_row(w->stream, y, linear->bias + first, observation.n_rows,
				observation.n_cols);
	observation.what = OBSERVED_Y;
	observation.values = y;
	pass_observe(pass, &observation);
}

size_t pass_rows(const struct pass *pass, size_t n)
{
	return pass->forward->filter.apply ? SIZE_MAX : pass->workspace->ops->rows(n);
}

/* Computes the products of rows [first, first + m). */
static int products_rows(const struct pass *pass, const struct products *products, size_t first,
			 size_t m, struct err *err)
{
	struct workspace *w = pass->workspace;
	size_t k = products->linears[0]->ref->k;
	struct observation x = pass_round(pass, products->x + first * k, m, k);

	for (size_t i = 0; i < products->n; i++) {
		const struct linear *linear = products->linears[i];
		float *y = products->ys[i] + first * linear->ref->n;
		struct observation output;
		const void *input;

		x.linear = linear->ref;
		if (pass_input(pass, linear, &x, &input, err))
			return -1;
		w->ops->multiply(w->stream, &linear->weight, input, m, y);
		output = x;
		output.n_cols = linear->ref->n;
		output.slot = w->own->n_slots_used++;
		pass_output(pass, linear, y, 0, output);
	}
	return 0;
}

int pass_products(const struct pass *pass, const struct products *products, struct err *err)
{
	struct workspace *w = pass->workspace;
	size_t n_values = products->linears[0]->ref->k, first_slot = w->own->n_slots_used, max_rows;

	for (size_t i = 0; i < products->n; i++)
		n_values += products->linears[i]->ref->n;
	max_rows = pass_rows(pass, n_values);
	for (size_t row = 0; row < products->m; row += max_rows) {
		size_t left = products->m - row;

		w->own->n_slots_used = first_slot;
		if (products_rows(pass, products, row, left < max_rows ? left : max_rows, err))
			return -1;
	}
	return 0;
}

int pass_linear(const struct pass *pass, const struct linear *linear, float *x, size_t m, float *y,
		struct err *err)
{
	const struct products products = { .linears = &linear, .n = 1, .x = x, .m = m, .ys = &y };

	return pass_products(pass, &products, err);
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
	size_t hidden = pass->forward->model->hidden;

	pass_norm(pass, (struct rows_in){ x, hidden }, weight, (struct rows_out){ y, hidden },
		  pass->sequence->n_tokens, hidden);
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
