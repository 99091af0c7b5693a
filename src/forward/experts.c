/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts of a layer on the tokens of several sequences: rows sorted by expert, a product for
 * each expert and matrix, and one operation for the rows of a batch between them.
 *
 * A batch is as many experts as the arrays have rows for, in order, if the executor multiplies rows
 * of several sequences together.  Else it is the tokens of one sequence and one expert: those of
 * all sequences, one after the other, so that the weights of an expert come from memory once.  In
 * both ways the values of a sequence, and their slots, do not depend on its group.
 */
#include "forward/expert_products.h"

/* The slots of a segment, from its first on: x and y of the first products, x and y of the last. */
struct slots {
	size_t gate, up; /* of their products' y; the same if they are one */
	size_t x, y;	 /* of the last product */
	size_t n;
};

static struct slots slots_of(const struct pass *pass)
{
	const struct linear *l = pass->layer->experts[0];
	bool two = l[EXPERT_ROLE_GATE].weight.data && l[EXPERT_ROLE_UP].weight.data;

	return two ? (struct slots){ 1, 2, 3, 4, 5 } : (struct slots){ 1, 1, 2, 3, 4 };
}

/* Gives each segment its slots. */
static void put_slots(const struct pass *pass, size_t n, size_t n_slots)
{
	struct workspace *w = pass->workspace;
	size_t n_segments = pass->layer->ref->n_experts * n;

	for (size_t i = 0; i < n_segments; i++) {
		struct own_arrays *own = &w->group[i % n];

		w->host.stats[i] = pass->sequence[i % n].stats + own->n_slots_used;
		if (w->host.counts[i])
			own->n_slots_used += n_slots;
	}
	w->ops->put(w->stream, w->route.stats, w->host.stats, n_segments * sizeof *w->host.stats);
}

/* Makes rows the input of products: rounds them, or the rows that they are taken from, and adds
 * them to the stats of a slot.  args has x, rows, factors, n_cols and slot; y receives the values,
 * if something needs them. */
static void make_input(const struct expert_batch *batch, struct take_rows_args args, float *y)
{
	const struct pass *pass = batch->pass;
	struct workspace *w = pass->workspace;

	args.n_rows = batch->n_rows;
	args.round = pass->forward->round;
	args.stats = expert_batch_stats(batch);
	args.codes = pass_codes(pass, w->input.rounded);
	args.y = args.codes && !pass_keeps(pass, true) ? NULL : y;
	w->ops->take_rows(w->stream, &args);
}

/* mlp.gate = activation(gate) * up, where these are mlp.gate and mlp.up, or in fused_out; the input
 * of the last product. */
static void gate(const struct expert_batch *batch, const struct slots *slots, bool fused,
		 bool observed)
{
	const struct pass *pass = batch->pass;
	struct workspace *w = pass->workspace;
	size_t width = pass->layer->experts[0][EXPERT_ROLE_DOWN].ref->k;
	struct gate_args args = { .activation = pass->forward->model->activation,
				  .limit = pass->layer->ref->expert_limit,
				  .limits_first = pass->forward->model->limits_first,
				  .gate = { w->mlp.gate, width },
				  .up = { w->mlp.up, width },
				  .n_rows = batch->n_rows,
				  .n_cols = width,
				  .round = pass->forward->round,
				  .rows = expert_batch_stats(batch),
				  .gate_slot = observed ? NO_SLOT : slots->gate,
				  .up_slot = observed ? NO_SLOT : slots->up,
				  .y_slot = slots->x,
				  .y = { w->mlp.gate, width } };

	if (fused) {
		args.gate = (struct rows_in){ w->fused_out, 2 * width };
		args.up = (struct rows_in){ w->fused_out + width, 2 * width };
	}
	args.rounded.codes = pass_codes(pass, w->input.rounded);
	if (args.rounded.codes && !pass_keeps(pass, true))
		args.y.data = NULL;
	w->ops->gate(w->stream, &args);
}

/* The same where the activation takes pairs of gate and up. */
static void gate_clamped(const struct expert_batch *batch, const struct slots *slots, bool fused)
{
	struct workspace *w = batch->pass->workspace;
	size_t width = batch->pass->layer->experts[0][EXPERT_ROLE_DOWN].ref->k;

	mlp_gate_clamped(batch->pass, batch->n_rows, width, fused);
	make_input(batch,
		   (struct take_rows_args){ .x = w->mlp.gate, .n_cols = width, .slot = slots->x },
		   w->mlp.gate);
}

/* The products before the activation, and the activation: from the input to mlp.gate. */
static void run_first(const struct expert_batch *batch, const struct slots *slots)
{
	const struct pass *pass = batch->pass;
	const struct model *model = pass->forward->model;
	const struct linear *l = pass->layer->experts[0];
	struct workspace *w = pass->workspace;
	bool fused = l[EXPERT_ROLE_GATE_UP].weight.data, factor = model->multipliers.gate != 1;
	bool fuses = !model->clamped && (fused || !factor); /* the stats with the activation */
	const int fused_role[] = { EXPERT_ROLE_GATE_UP };
	const int roles[] = { EXPERT_ROLE_GATE, EXPERT_ROLE_UP };
	float *const fused_y[] = { w->fused_out }, *const ys[] = { w->mlp.gate, w->mlp.up };
	const size_t y_slots[] = { slots->gate, slots->up };
	const struct expert_products products = { .roles = fused ? fused_role : roles,
						  .ys = fused ? fused_y : ys,
						  .y_slots = y_slots,
						  .n = fused ? 1 : 2,
						  .x = w->mlp.expert_in,
						  .y_stats = !fuses };

	expert_products_run(batch, &products);
	if (!fused)
		pass_scale(pass, w->mlp.gate, model->multipliers.gate, batch->n_rows,
			   l[EXPERT_ROLE_DOWN].ref->k);
	if (model->clamped)
		gate_clamped(batch, slots, fused);
	else
		gate(batch, slots, fused, !fuses);
}

/* The same for experts without a gate. */
static void run_ungated(const struct expert_batch *batch, const struct slots *slots)
{
	struct workspace *w = batch->pass->workspace;
	size_t width = batch->pass->layer->experts[0][EXPERT_ROLE_DOWN].ref->k;
	const struct expert_products products = { .roles = &(const int){ EXPERT_ROLE_UP },
						  .ys = &w->mlp.gate,
						  .y_slots = &slots->up,
						  .n = 1,
						  .x = w->mlp.expert_in,
						  .y_stats = true };

	expert_products_run(batch, &products);
	pass_activate(batch->pass, ACT_SRELU, w->mlp.gate, batch->n_rows * width);
	make_input(batch,
		   (struct take_rows_args){ .x = w->mlp.gate, .n_cols = width, .slot = slots->x },
		   w->mlp.gate);
}

static void run_batch(const struct expert_batch *batch, const struct slots *slots)
{
	const struct pass *pass = batch->pass;
	const struct model *model = pass->forward->model;
	const struct linear *l = pass->layer->experts[0];
	const struct expert_rows rows = experts_rows(pass);
	const struct own_arrays *last = &pass->workspace->group[batch->n - 1];
	struct workspace *w = pass->workspace;
	const float *factors = w->route.factors + batch->first;
	bool scaled = model->arch->scaled_inputs;
	const struct combine_args combine = { .y = rows.out,
					      .x = w->mlp.expert_out,
					      .rows = w->route.rows + batch->first,
					      .factors = scaled ? NULL : factors,
					      .places = w->route.places,
					      .weights = scaled ? NULL : w->route.weights,
					      .first = batch->first,
					      .n_rows = batch->n_rows,
					      .n_tokens = last->first_token +
							  pass->sequence[batch->n - 1].n_tokens,
					      .top_k = model->routing.top_k,
					      .n_cols = rows.width };
	const struct expert_products down = { .roles = &(const int){ EXPERT_ROLE_DOWN },
					      .ys = &w->mlp.expert_out,
					      .y_slots = &slots->y,
					      .n = 1,
					      .x = w->mlp.gate,
					      .x_slot = slots->x,
					      .y_stats = true };

	make_input(batch,
		   (struct take_rows_args){ .x = rows.in,
					    .rows = combine.rows,
					    .factors = scaled ? factors : NULL,
					    .n_cols = rows.width },
		   w->mlp.expert_in);
	if (l[EXPERT_ROLE_GATE].weight.data || l[EXPERT_ROLE_GATE_UP].weight.data)
		run_first(batch, slots);
	else
		run_ungated(batch, slots);
	expert_products_run(batch, &down);
	w->ops->combine(w->stream, &combine);
}

/* Runs a batch, of one segment as many rows at a time as stay in a cache. */
static void run_pieces(const struct expert_batch *batch, const struct slots *slots)
{
	const struct linear_ref *down = batch->pass->layer->experts[0][EXPERT_ROLE_DOWN].ref;
	bool grouped = batch->pass->workspace->ops->load.grouped;
	size_t max_rows = grouped ? SIZE_MAX : pass_rows(batch->pass, 2 * (down->n + down->k));
	struct expert_batch piece = *batch;

	for (size_t row = 0; row < batch->n_rows; row += max_rows) {
		size_t left = batch->n_rows - row;

		piece.first = batch->first + row;
		piece.n_rows = left < max_rows ? left : max_rows;
		run_batch(&piece, slots);
	}
}

int experts_run(const struct pass *pass, size_t n, struct err *err)
{
	const struct slots slots = slots_of(pass);
	struct workspace *w = pass->workspace;
	size_t n_segments = pass->layer->ref->n_experts * n, step = w->ops->load.grouped ? n : 1;
	size_t max_rows = w->ops->load.grouped ? w->expert_rows : 0;
	struct expert_batch batch = { .pass = pass, .n = n };

	if (router_choose(pass, n, err))
		return -1;
	put_slots(pass, n, slots.n);
	w->input.rounded_from = NULL; /* its memory is used for other rows */
	for (; batch.end < n_segments; batch.end += step) {
		size_t rows = expert_segments_rows(pass, batch.end, batch.end + step);

		if (batch.n_rows + rows > max_rows) {
			run_pieces(&batch, &slots);
			batch.first += batch.n_rows;
			batch.n_rows = 0;
			batch.begin = batch.end;
		}
		batch.n_rows += rows;
	}
	run_pieces(&batch, &slots);
	return 0;
}
