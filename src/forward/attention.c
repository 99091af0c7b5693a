/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of one sequence: q, k and v, their norms and rotations, and what heads make of them.
 */
#include "forward/pass.h"

/* Rows close together to rows close together, of some columns. */
static void cut_columns(struct workspace *lane, const float *x, size_t n_rows, size_t wide,
			size_t first, size_t n, float *y)
{
	lane->ops->copy(lane->executor, &(const struct copy_args){ .y = { y, n },
								   .x = { x + first, wide },
								   .repeat = 1,
								   .n_rows = n_rows,
								   .n_cols = n });
}

static int make_qkv(const struct forward *forward, struct workspace *lane,
		    const struct layer *layer, const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	size_t n = sequence->n_tokens;
	size_t q = model->n_heads * model->head_dim, k = model->n_kv_heads * model->head_dim;
	size_t v = model->n_kv_heads * model->value_dim, wide = q + k + v;
	const struct linear *l = layer->linear;
	const struct linear *const three[] = { &l[LINEAR_Q], &l[LINEAR_K], &l[LINEAR_V] };
	float *const ys[] = { lane->q, lane->k, lane->v };

	if (!l[LINEAR_QKV].weight.data)
		return linears_run(forward, lane, layer, 3, three, sequence, lane->normed, n, ys,
				   err);
	if (linear_run(forward, lane, layer, &l[LINEAR_QKV], sequence, lane->normed, n,
		       lane->joined, err))
		return -1;
	cut_columns(lane, lane->joined, n, wide, 0, q, lane->q);
	cut_columns(lane, lane->joined, n, wide, q, k, lane->k);
	cut_columns(lane, lane->joined, n, wide, q + k, v, lane->v);
	return 0;
}

static int make_latent_q(const struct forward *forward, struct workspace *lane,
			 const struct layer *layer, const struct sequence *sequence,
			 struct err *err)
{
	const struct model *model = forward->model;
	const struct linear *l = layer->linear;
	size_t n = sequence->n_tokens, rank = model->latent.q_lora_rank;

	if (!rank)
		return linear_run(forward, lane, layer, &l[LINEAR_Q], sequence, lane->normed, n,
				  lane->q, err);
	if (linear_run(forward, lane, layer, &l[LINEAR_Q_A], sequence, lane->normed, n,
		       lane->narrow, err))
		return -1;
	lane->ops->rms_norm(lane->executor,
			    &(const struct rms_norm_args){ .x = { lane->narrow, rank },
							   .weight = layer->vector[VECTOR_NORM_Q_A],
							   .offset = model->norm_offset,
							   .eps = model->norm_eps,
							   .n_rows = n,
							   .n_cols = rank,
							   .y = { lane->narrow, rank } });
	return linear_run(forward, lane, layer, &l[LINEAR_Q_B], sequence, lane->narrow, n, lane->q,
			  err);
}

/* The turning part of each query, whose pairs lie side by side; mixed holds them meanwhile. */
static void part_queries(const struct model *model, struct workspace *lane, size_t n)
{
	const struct latent *latent = &model->latent;
	float *turning = lane->q + latent->nope_dim;

	lane->ops->copy(lane->executor,
			&(const struct copy_args){ .y = { lane->mixed, latent->rope_dim },
						   .x = { turning, model->head_dim },
						   .repeat = 1,
						   .n_rows = n * model->n_heads,
						   .n_cols = latent->rope_dim });
	lane->ops->deinterleave(lane->executor, &(const struct deinterleave_args){
							.y = { turning, model->head_dim },
							.x = { lane->mixed, latent->rope_dim },
							.n_rows = n * model->n_heads,
							.n_cols = latent->rope_dim });
}

/* Keys: each head's nope_dim part, and behind it the turning part that all heads share; and values. */
static void join_keys(const struct model *model, struct workspace *lane, size_t n)
{
	const struct latent *latent = &model->latent;
	size_t n_rows = n * model->n_heads, wide = latent->nope_dim + model->value_dim;

	lane->ops->copy(lane->executor,
			&(const struct copy_args){ .y = { lane->k, model->head_dim },
						   .x = { lane->expanded, wide },
						   .repeat = 1,
						   .n_rows = n_rows,
						   .n_cols = latent->nope_dim });
	lane->ops->copy(
		lane->executor,
		&(const struct copy_args){ .y = { lane->k + latent->nope_dim, model->head_dim },
					   .x = { lane->turning, latent->rope_dim },
					   .repeat = model->n_heads,
					   .n_rows = n_rows,
					   .n_cols = latent->rope_dim });
	lane->ops->copy(lane->executor,
			&(const struct copy_args){ .y = { lane->v, model->value_dim },
						   .x = { lane->expanded + latent->nope_dim, wide },
						   .repeat = 1,
						   .n_rows = n_rows,
						   .n_cols = model->value_dim });
}

/* Multi-head latent attention (DeepSeek-V2): q, k and v as heads see them. */
static int make_latent(const struct forward *forward, struct workspace *lane,
		       const struct layer *layer, const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	const struct latent *latent = &model->latent;
	const struct linear *l = layer->linear;
	size_t n = sequence->n_tokens, wide = latent->kv_lora_rank + latent->rope_dim;

	if (make_latent_q(forward, lane, layer, sequence, err) ||
	    linear_run(forward, lane, layer, &l[LINEAR_KV_A], sequence, lane->normed, n,
		       lane->narrow, err))
		return -1;
	lane->ops->rms_norm(lane->executor, &(const struct rms_norm_args){
						    .x = { lane->narrow, wide },
						    .weight = layer->vector[VECTOR_NORM_KV_A],
						    .offset = model->norm_offset,
						    .eps = model->norm_eps,
						    .n_rows = n,
						    .n_cols = latent->kv_lora_rank,
						    .y = { lane->latent, latent->kv_lora_rank } });
	lane->ops->deinterleave(lane->executor,
				&(const struct deinterleave_args){
					.y = { lane->turning, latent->rope_dim },
					.x = { lane->narrow + latent->kv_lora_rank, wide },
					.n_rows = n,
					.n_cols = latent->rope_dim });
	if (linear_run(forward, lane, layer, &l[LINEAR_KV_B], sequence, lane->latent, n,
		       lane->expanded, err))
		return -1;
	part_queries(model, lane, n);
	join_keys(model, lane, n);
	return 0;
}

/* Each head of each token by itself. */
static void norm_heads(const struct forward *forward, struct workspace *lane, const float *weight,
		       float *x, size_t n)
{
	const struct model *model = forward->model;

	if (weight)
		lane->ops->rms_norm(lane->executor,
				    &(const struct rms_norm_args){ .x = { x, model->head_dim },
								   .weight = weight,
								   .offset = model->norm_offset,
								   .eps = model->norm_eps,
								   .n_rows = n,
								   .n_cols = model->head_dim,
								   .y = { x, model->head_dim } });
}

/* Angles stay from layer to layer. */
static void angles_ready(struct workspace *lane, const struct rope *rope, size_t n_tokens)
{
	size_t half = rope->n / 2, size = n_tokens * half * sizeof(float);

	if (lane->rope == rope && lane->n_angles >= n_tokens)
		return;
	lane->rope = rope;
	lane->n_angles = n_tokens;
	for (size_t t = 0; t < n_tokens; t++)
		rope_angles(rope, t, lane->host_cosines + t * half, lane->host_sines + t * half);
	lane->ops->put(lane->executor, lane->cosines, lane->host_cosines, size);
	lane->ops->put(lane->executor, lane->sines, lane->host_sines, size);
}

static void rotate(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		   size_t n_tokens)
{
	const struct model *model = forward->model;
	const struct rope *rope = layer->ref->rope;
	size_t nope_dim = model->latent.nope_dim;

	angles_ready(lane, rope, n_tokens);
	lane->ops->rope(lane->executor,
			&(const struct rope_args){
				.x = { lane->q + nope_dim, model->n_heads * model->head_dim },
				.n_tokens = n_tokens,
				.n_heads = model->n_heads,
				.head_dim = model->head_dim,
				.cosines = lane->cosines,
				.sines = lane->sines,
				.rope_dim = rope->n });
	lane->ops->rope(lane->executor,
			&(const struct rope_args){
				.x = { lane->k + nope_dim, model->n_kv_heads * model->head_dim },
				.n_tokens = n_tokens,
				.n_heads = model->n_kv_heads,
				.head_dim = model->head_dim,
				.cosines = lane->cosines,
				.sines = lane->sines,
				.rope_dim = rope->n });
}

static void show(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		 const struct sequence *sequence)
{
	const struct model *model = forward->model;
	const struct {
		enum observed what;
		const float *values;
		size_t n_cols;
	} values[] = {
		{ OBSERVED_Q, lane->q, model->n_heads * model->head_dim },
		{ OBSERVED_K, lane->k, model->n_kv_heads * model->head_dim },
		{ OBSERVED_V, lane->v, model->n_kv_heads * model->value_dim },
	};

	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		const struct observation observation = { .what = values[i].what,
							 .layer = layer->ref,
							 .lane = lane->number,
							 .executor = lane->executor,
							 .sequence = sequence->index,
							 .values = values[i].values,
							 .n_rows = sequence->n_tokens,
							 .n_cols = values[i].n_cols,
							 .slot = lane->n_slots_used++ };

		pass_observe(forward, lane, sequence, &observation);
	}
}

static void attend(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		   size_t n_tokens)
{
	const struct model *model = forward->model;
	const struct attention_args args = { .n_tokens = n_tokens,
					     .n_heads = model->n_heads,
					     .n_kv_heads = model->n_kv_heads,
					     .head_dim = model->head_dim,
					     .value_dim = model->value_dim,
					     .window = layer->ref->window,
					     .scale = model->attention_scale,
					     .softcap = model->attention_softcap,
					     .sinks = layer->vector[VECTOR_SINKS],
					     .q = lane->q,
					     .k = lane->k,
					     .v = lane->v,
					     .y = lane->mixed,
					     .scratch = lane->spare };

	lane->ops->attend(lane->executor, &args);
}

int forward_attention(const struct forward *forward, struct workspace *lane,
		      const struct layer *layer, const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	size_t n = sequence->n_tokens;

	if (model->latent.kv_lora_rank ? make_latent(forward, lane, layer, sequence, err)
				       : make_qkv(forward, lane, layer, sequence, err))
		return -1;
	norm_heads(forward, lane, layer->vector[VECTOR_NORM_Q], lane->q, n * model->n_heads);
	norm_heads(forward, lane, layer->vector[VECTOR_NORM_K], lane->k, n * model->n_kv_heads);
	rotate(forward, lane, layer, n);
	show(forward, lane, layer, sequence);
	attend(forward, lane, layer, n);
	return linear_run(forward, lane, layer, &layer->linear[LINEAR_O], sequence, lane->mixed, n,
			  lane->out, err);
}
