/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/forward.h"

#include "forward/pass.h"

int forward_init(struct forward *forward, const struct executor_ops *executor,
		 const struct model *model, bool precision_f32, struct err *err)
{
	*forward = (struct forward){ .model = model, .round = !precision_f32 };
	forward->input = precision_f32 ? DT_F32 : executor->bf16_type();
	return executor->open(&forward->executor, err);
}

void forward_release(struct forward *forward)
{
	if (forward->executor)
		forward->executor->ops->close(forward->executor);
	*forward = (struct forward){ 0 };
}

size_t forward_slots(const struct model *model)
{
	size_t n_experts = 0;

	for (size_t i = 0; i < model->n_layers; i++)
		n_experts = model->layers[i].n_experts > n_experts ? model->layers[i].n_experts
								   : n_experts;
	return 3 + 2 * (N_LINEARS +
			n_experts * N_EXPERT_ROLES); /* q, k and v; x and y of each matrix */
}

static void observer_call(const struct forward *forward, const struct observation *observation)
{
	if (forward->observer)
		forward->observer->observe(forward->observer->context, observation);
}

void pass_observe(const struct forward *forward, struct workspace *lane,
		  const struct sequence *sequence, const struct observation *observation)
{
	lane->ops->amax(lane->executor, observation->values,
			observation->n_rows * observation->n_cols,
			&sequence->stats[observation->slot]);
	observer_call(forward, observation);
}

struct observation linear_observation(const struct forward *forward, struct workspace *lane,
				      const struct layer *layer, const struct sequence *sequence,
				      float *x, size_t m, size_t k)
{
	const struct observation observation = { .what = OBSERVED_X,
						 .layer = layer ? layer->ref : NULL,
						 .lane = lane->number,
						 .executor = lane->executor,
						 .sequence = sequence->index,
						 .values = x,
						 .n_rows = m,
						 .n_cols = k,
						 .slot = lane->n_slots_used++ };

	if (forward->round)
		lane->ops->round_amax(lane->executor, x, m * k, &sequence->stats[observation.slot]);
	else
		lane->ops->amax(lane->executor, x, m * k, &sequence->stats[observation.slot]);
	lane->rounded_from = lane->fetched_from = NULL;
	return observation;
}

/* values: what the filter makes of x. */
static int filter(const struct forward *forward, struct workspace *lane,
		  const struct linear *linear, const struct observation *x, struct err *err)
{
	size_t size = x->n_rows * x->n_cols * sizeof(float);
	const float *values;

	if (lane->fetched_from != x->values)
		lane->ops->fetch(lane->executor, lane->host_input, x->values, size);
	lane->fetched_from = x->values;
	if (lane->ops->wait(lane->executor, err) ||
	    forward->filter.apply(forward->filter.context, linear, lane->number, lane->host_input,
				  x->n_rows, &values, err))
		return -1;
	lane->ops->put(lane->executor, lane->filtered, values, size);
	return 0;
}

int linear_input(const struct forward *forward, struct workspace *lane, const struct linear *linear,
		 const struct observation *x, const void **input, struct err *err)
{
	const float *values = x->values;

	observer_call(forward, x);
	if (linear->module) {
		if (filter(forward, lane, linear, x, err))
			return -1;
		values = lane->filtered;
	}
	*input = values;
	if (linear->input != DT_BF16)
		return 0;
	*input = lane->rounded;
	if (lane->rounded_from == values)
		return 0; /* matrices that share x */
	lane->ops->round_bf16(lane->executor, values, x->n_rows * x->n_cols, lane->rounded);
	lane->rounded_from = linear->module ? NULL : values;
	return 0;
}

void linear_output(const struct forward *forward, struct workspace *lane,
		   const struct linear *linear, const struct sequence *sequence,
		   struct observation y, float *values, size_t first, size_t n)
{
	if (linear->bias)
		lane->ops->add_row(lane->executor, values, linear->bias + first, y.n_rows, n);
	y.what = OBSERVED_Y;
	y.values = values;
	y.n_cols = n;
	pass_observe(forward, lane, sequence, &y);
}

static int linears_rows(const struct forward *forward, struct workspace *lane,
			const struct layer *layer, size_t n, const struct linear *const linears[],
			const struct sequence *sequence, float *x, size_t first, size_t m,
			float *const ys[], struct err *err)
{
	size_t k = linears[0]->ref->k;
	struct observation observation =
		linear_observation(forward, lane, layer, sequence, x + first * k, m, k);
	const void *input;

	for (size_t i = 0; i < n; i++) {
		float *y = ys[i] + first * linears[i]->ref->n;
		struct observation output;

		observation.linear = linears[i]->ref;
		if (linear_input(forward, lane, linears[i], &observation, &input, err))
			return -1;
		lane->ops->multiply(lane->executor, &linears[i]->weight, input, m, y);
		output = observation;
		output.slot = lane->n_slots_used++;
		linear_output(forward, lane, linears[i], sequence, output, y, 0,
			      linears[i]->ref->n);
	}
	return 0;
}

size_t forward_rows(const struct forward *forward, const struct workspace *lane, size_t n)
{
	return forward->filter.apply ? SIZE_MAX : lane->ops->rows(n);
}

int linears_run(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		size_t n, const struct linear *const linears[], const struct sequence *sequence,
		float *x, size_t m, float *const ys[], struct err *err)
{
	size_t values = linears[0]->ref->k, n_slots_used = lane->n_slots_used, most;

	for (size_t i = 0; i < n; i++)
		values += linears[i]->ref->n;
	most = forward_rows(forward, lane, values);
	for (size_t row = 0; row < m; row += most) {
		size_t left = m - row;

		lane->n_slots_used = n_slots_used;
		if (linears_rows(forward, lane, layer, n, linears, sequence, x, row,
				 left < most ? left : most, ys, err))
			return -1;
	}
	return 0;
}

int linear_run(const struct forward *forward, struct workspace *lane, const struct layer *layer,
	       const struct linear *linear, const struct sequence *sequence, float *x, size_t m,
	       float *y, struct err *err)
{
	return linears_run(forward, lane, layer, 1, &linear, sequence, x, m, &y, err);
}

void forward_norm(const struct forward *forward, struct workspace *lane, const float *x,
		  const float *weight, size_t n_tokens, float *normed)
{
	const struct model *model = forward->model;

	lane->ops->rms_norm(lane->executor,
			    &(const struct rms_norm_args){ .x = { x, model->hidden },
							   .weight = weight,
							   .offset = model->norm_offset,
							   .eps = model->norm_eps,
							   .n_rows = n_tokens,
							   .n_cols = model->hidden,
							   .y = { normed, model->hidden } });
}

int forward_embed(const struct forward *forward, struct workspace *lane, const float *table,
		  size_t n_rows, const uint32_t *places, const struct sequence *sequence,
		  struct err *err)
{
	size_t n = sequence->n_tokens, hidden = forward->model->hidden;

	lane->ops->put(lane->executor, lane->normed, table, n_rows * hidden * sizeof *table);
	lane->ops->put(lane->executor, lane->places, places, n * sizeof *places);
	lane->ops->gather(lane->executor, sequence->residual, lane->normed, lane->places, n,
			  hidden);
	return lane->ops->wait(lane->executor, err)
		       ? err_wrap(err, "the embedding of sequence %zu", sequence->index)
		       : 0;
}

/* A half of a layer: its input normed, its output in lane->out, normed too where the layer says so,
 * added to the stream. */
static int half(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		struct sequence *sequence, enum vector_role before, enum vector_role after,
		int (*run)(const struct forward *, struct workspace *, const struct layer *,
			   const struct sequence *, struct err *),
		struct err *err)
{
	forward_norm(forward, lane, sequence->residual, layer->vector[before], sequence->n_tokens,
		     lane->normed);
	if (run(forward, lane, layer, sequence, err))
		return -1;
	if (layer->vector[after])
		forward_norm(forward, lane, lane->out, layer->vector[after], sequence->n_tokens,
			     lane->out);
	lane->ops->add(lane->executor, sequence->residual, lane->out,
		       sequence->n_tokens * forward->model->hidden);
	return 0;
}

int forward_layer(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		  struct sequence *sequence, struct err *err)
{
	lane->n_slots_used = 0;
	if (half(forward, lane, layer, sequence, VECTOR_NORM_ATTENTION, VECTOR_NORM_ATTENTION_OUT,
		 forward_attention, err) ||
	    half(forward, lane, layer, sequence, VECTOR_NORM_MLP, VECTOR_NORM_MLP_OUT, forward_mlp,
		 err) ||
	    lane->ops->wait(lane->executor, err))
		return err_wrap(err, "the layer of '%s', sequence %zu", layer->ref->attention,
				sequence->index);
	return 0;
}
