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
	pass_amax(pass, observation->values, observation->n_rows * observation->n_cols,
		  &pass->sequence->stats[observation->slot]);
	pass_observed(pass, observation);
}

void pass_observe_out(const struct pass *pass)
{
	struct workspace *w = pass->workspace;

	if (w->own->out_stats)
		pass_amax(pass, w->own->out,
			  pass->sequence->n_tokens * pass->forward->model->hidden,
			  w->own->out_stats);
	w->own->out_stats = NULL;
}

void pass_amax(const struct pass *pass, const float *x, size_t n, struct value_stats *stats)
{
	const struct measure_args args = { .x = x, .n = n, .stats = stats };

	pass->workspace->ops->measure(pass->workspace->stream, &args);
}

void pass_activate(const struct pass *pass, enum activation activation, float *x, size_t n)
{
	const struct gate_args args = {
		.activation = activation, .gate.data = x, .n_rows = 1, .n_cols = n, .y.data = x
	};

	pass->workspace->ops->gate(pass->workspace->stream, &args);
}

void pass_bias(const struct pass *pass, const float *bias, float *y, size_t m, size_t n)
{
	const struct add_args args = { .x = y, .y = bias, .n_rows = m, .n = n };

	if (bias)
		pass->workspace->ops->add(pass->workspace->stream, &args);
}

/* Each part of the rows is a panel. */
static void multiply_parts(const struct pass *pass, const struct linear *linear, const char *input,
			   size_t m, float *y)
{
	struct workspace *w = pass->workspace;
	size_t n = linear->ref->n, n_rows = n / linear->ref->n_parts;
	size_t size = m * linear->ref->k * dtype_bits(linear->input) / 8;
	const struct copy_args copy = {
		.x = { w->attention.part_out, n_rows }, .repeat = 1, .n_rows = m, .n_cols = n_rows
	};

	for (size_t part = 0; part < linear->ref->n_parts; part++) {
		const struct multiply_args args = { .weight = &linear->weight,
						    .x = input + part * size,
						    .m = m,
						    .y = w->attention.part_out,
						    .panel = &part };
		struct copy_args to = copy;

		to.y = (struct rows_out){ y + part * n_rows, n };
		w->ops->multiply(w->stream, &args);
		w->ops->copy(w->stream, &to);
	}
}

void pass_multiply(const struct pass *pass, const struct linear *linear, const void *input,
		   size_t m, float *y)
{
	const struct multiply_args args = { .weight = &linear->weight, .x = input, .m = m, .y = y };

	if (linear->ref->n_parts > 1)
		multiply_parts(pass, linear, input, m, y);
	else
		pass->workspace->ops->multiply(pass->workspace->stream, &args);
}

int forward_linear(const struct pass *pass, const struct linear *linear, const float *x, size_t m,
		   float *y, struct err *err)
{
	struct workspace *w = pass->workspace;
	const struct input_rows rows = {
		.values = x, .n_rows = m, .n_cols = linear->ref->k, .counts = w->cast.counts
	};
	size_t counts_size = pass->forward->casts ? sizeof *w->cast.counts : 0;
	const void *input;

	w->input.rounded_from = w->cast.from = NULL;
	w->ops->zero(w->stream, w->cast.counts, counts_size);
	input = pass_prepare(pass, linear, &rows);
	m /= linear->ref->n_parts ? linear->ref->n_parts : 1;
	pass_multiply(pass, linear, input, m, y);
	pass_bias(pass, linear->bias, y, m, linear->ref->n);
	w->ops->fetch(w->stream, w->host.cast_counts, w->cast.counts, counts_size);
	w->input.rounded_from = w->cast.from = NULL;
	return w->ops->wait(w->stream, err);
}

/* Adds the bias to y, and calls the observer. */
static void output(const struct pass *pass, const struct linear *linear, float *y, size_t first,
		   struct observation *observation)
{
	pass_bias(pass, linear->bias ? linear->bias + first : NULL, y, observation->n_rows,
		  observation->n_cols);
	observation->what = OBSERVED_Y;
	observation->values = y;
	pass_observed(pass, observation);
}

void pass_output(const struct pass *pass, const struct linear *linear, float *y, size_t first,
		 struct observation observation)
{
	output(pass, linear, y, first, &observation);
	pass_amax(pass, y, observation.n_rows * observation.n_cols,
		  &pass->sequence->stats[observation.slot]);
}

size_t pass_rows(const struct pass *pass, size_t n)
{
	return pass->forward->casts ? SIZE_MAX : pass->workspace->ops->portion(PORTION_ROWS, n);
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
		pass_multiply(pass, linear, pass_input(pass, linear, &x), m, y);
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
				       .centered = model->arch->norms == NORMS_CENTERED,
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
					    .centered = pass->forward->model->arch->norms ==
							NORMS_CENTERED,
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

void pass_norm_out(const struct pass *pass, const float *weight)
{
	float *out = pass->workspace->own->out;
	struct rms_norm_args args = pass_norm_args(pass, out, weight, out);

	args.eps = pass->forward->model->out_norm_eps;
	pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
}

void pass_norm_plain(const struct pass *pass, float *x, size_t n_rows, size_t n_cols)
{
	const struct rms_norm_args args = { .x = { x, n_cols },
					    .offset = 1,
					    .eps = pass->forward->model->norm_eps,
					    .n_rows = n_rows,
					    .n_cols = n_cols,
					    .y = { x, n_cols } };

	pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
}

void pass_add(const struct pass *pass, float *x, const float *y, size_t n)
{
	const struct add_args args = { .x = x, .y = y, .n_rows = 1, .n = n };

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
