/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/expert_products.h"

size_t expert_segments_rows(const struct pass *pass, size_t begin, size_t end)
{
	size_t rows = 0;

	for (size_t i = begin; i < end; i++)
		rows += pass->workspace->host.counts[i];
	return rows;
}

static bool is_of_one(const struct expert_batch *batch)
{
	return batch->end - batch->begin == 1;
}

/* Returns the first expert of a batch, and the one after the last. */
static size_t first_expert(const struct expert_batch *batch)
{
	return batch->begin / batch->n;
}

static size_t end_expert(const struct expert_batch *batch)
{
	return (batch->end - 1) / batch->n + 1;
}

/* Returns the rows of an expert in a batch, which has whole experts unless it is of one segment. */
static size_t expert_rows(const struct expert_batch *batch, size_t expert)
{
	if (is_of_one(batch))
		return batch->n_rows;
	return expert_segments_rows(batch->pass, expert * batch->n, (expert + 1) * batch->n);
}

struct row_stats expert_batch_stats(const struct expert_batch *batch)
{
	const struct route_arrays *route = &batch->pass->workspace->route;

	return (struct row_stats){ route->stats, route->segments + batch->first };
}

/* Tells the observer of the values of each segment: rows of k values, of one matrix of each
 * expert. */
static void observe(const struct expert_batch *batch, int role, enum observed what,
		    const float *values, size_t slot)
{
	const struct pass *pass = batch->pass;
	struct workspace *w = pass->workspace;

	for (size_t i = batch->begin; i < batch->end; i++) {
		const struct sequence *sequence = &pass->sequence[i % batch->n];
		const struct linear_ref *linear = pass->layer->experts[i / batch->n][role].ref;
		size_t first = (size_t)(w->host.stats[i] - sequence->stats);
		const struct observation observation = {
			.what = what,
			.linear = linear,
			.layer = pass->layer->ref,
			.worker = w->number,
			.stream = w->stream,
			.sequence = sequence->index,
			.values = values,
			.n_rows = is_of_one(batch) ? batch->n_rows : w->host.counts[i],
			.n_cols = what == OBSERVED_X ? linear->k : linear->n,
			.slot = first + slot,
		};

		if (observation.n_rows)
			pass_observed(pass, &observation);
		values += observation.n_rows * observation.n_cols;
	}
}

/* Adds x (n_rows, n_cols) to the stats of a slot. */
static void add_stats(const struct expert_batch *batch, const float *x, size_t n_cols, size_t slot)
{
	struct workspace *w = batch->pass->workspace;
	const struct take_rows_args args = { .x = x,
					     .n_rows = batch->n_rows,
					     .n_cols = n_cols,
					     .stats = expert_batch_stats(batch),
					     .slot = slot };

	w->ops->take_rows(w->stream, &args);
}

/* Experts [first, end) of a batch, whose matrices take their input in the same way, and their
 * rows. */
struct expert_run {
	size_t first, end, row, n_rows;
};

/* Do the matrices of two experts take the same input? */
static bool inputs_equal(const struct expert_batch *batch, const struct expert_products *products,
			 size_t a, size_t b)
{
	const struct layer *layer = batch->pass->layer;

	for (size_t i = 0; i < products->n; i++) {
		int role = products->roles[i];

		if (!pass_inputs_equal(&layer->experts[a][role], &layer->experts[b][role]))
			return false;
	}
	return true;
}

/* Returns the run after this one. */
static struct expert_run run_after(const struct expert_batch *batch,
				   const struct expert_products *products, struct expert_run last)
{
	struct expert_run run = { last.end, last.end, last.row + last.n_rows, 0 };

	do
		run.n_rows += expert_rows(batch, run.end++);
	while (run.end < end_expert(batch) && inputs_equal(batch, products, run.first, run.end));
	return run;
}

/* Multiplies the rows of each expert of a run.  input: of the first row, as `linear->input`. */
static void multiply_run(const struct expert_batch *batch, struct expert_run run, int role,
			 const void *input, float *y)
{
	struct workspace *w = batch->pass->workspace;
	const char *x = input;

	for (size_t e = run.first; e < run.end; e++) {
		const struct linear *linear = &batch->pass->layer->experts[e][role];
		size_t m = expert_rows(batch, e), n = linear->ref->n;

		if (m)
			w->ops->multiply(w->stream, &(const struct multiply_args){
							    &linear->weight, x, m, y, NULL,
							    w->ops->load.grouped });
		pass_bias(batch->pass, linear->bias, y, m, n);
		x += m * linear->ref->k * dtype_bits(linear->input) / 8;
		y += m * n;
	}
}

static void products_run(const struct expert_batch *batch, const struct expert_products *products,
			 struct expert_run run)
{
	const struct pass *pass = batch->pass;
	struct workspace *w = pass->workspace;
	const struct linear *l = pass->layer->experts[run.first];
	size_t k = l[products->roles[0]].ref->k;
	const uint32_t *segments = w->route.segments + batch->first + run.row;
	const struct input_rows x = { .values = products->x + run.row * k,
				      .n_rows = run.n_rows,
				      .n_cols = k,
				      .segments = is_of_one(batch) ? NULL : segments,
				      .n_segments = pass->layer->ref->n_experts * batch->n };

	w->cast.from = NULL;
	w->input.codes = w->input.rounded + run.row * k;
	w->input.rounded_from = pass_codes(pass, w->input.rounded) ? x.values : NULL;
	for (size_t i = 0; i < products->n && run.n_rows; i++) {
		const struct linear *linear = &l[products->roles[i]];

		multiply_run(batch, run, products->roles[i], pass_prepare(pass, linear, &x),
			     products->ys[i] + run.row * linear->ref->n);
	}
}

void expert_products_run(const struct expert_batch *batch, const struct expert_products *products)
{
	const struct linear *l = batch->pass->layer->experts[0];
	struct expert_run run = { first_expert(batch), first_expert(batch), 0, 0 };

	for (size_t i = 0; i < products->n; i++)
		observe(batch, products->roles[i], OBSERVED_X, products->x, products->x_slot);
	while (run.end < end_expert(batch)) {
		run = run_after(batch, products, run);
		products_run(batch, products, run);
	}
	for (size_t i = 0; i < products->n; i++) {
		int role = products->roles[i];

		if (products->y_stats)
			add_stats(batch, products->ys[i], l[role].ref->n, products->y_slots[i]);
		observe(batch, role, OBSERVED_Y, products->ys[i], products->y_slots[i]);
	}
}
