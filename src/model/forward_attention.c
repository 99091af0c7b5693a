/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of one sequence: q, k and v, their norms and rotations, then one head of keys after the other, with the
 * queries that share it.
 */
#include <string.h>

#include "model/forward_internal.h"

/* Columns [first, first + n) of rows of `wide` values, close together. */
static void cut_columns(const float *x, size_t n_rows, size_t wide, size_t first, size_t n, float *y)
{
	for (size_t r = 0; r < n_rows; r++)
		memmove(y + r * n, x + r * wide + first, n * sizeof *y);
}

static int make_qkv(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		    const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	size_t n = sequence->n_tokens;
	size_t q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
	const struct linear *l = layer->linear;
	const struct linear *const three[] = { &l[LINEAR_Q], &l[LINEAR_K], &l[LINEAR_V] };
	float *const ys[] = { lane->q, lane->k, lane->v };

	if (!l[LINEAR_QKV].weight)
		return linears_run(forward, lane, layer, 3, three, sequence, lane->normed, n, ys, err);
	if (linear_run(forward, lane, layer, &l[LINEAR_QKV], sequence, lane->normed, n, lane->q, err))
		return -1;
	cut_columns(lane->q, n, q + 2 * kv, q, kv, lane->k);
	cut_columns(lane->q, n, q + 2 * kv, q + kv, kv, lane->v);
	cut_columns(lane->q, n, q + 2 * kv, 0, q, lane->q);
	return 0;
}

/* Pairs that lie side by side come to lie half a length apart, which is how they are turned.  spare: n / 2 floats. */
static void part_pairs(float *x, size_t n, float *spare)
{
	for (size_t i = 0; i < n / 2; i++) {
		spare[i] = x[2 * i + 1];
		x[i] = x[2 * i];
	}
	memcpy(x + n / 2, spare, n / 2 * sizeof *x);
}

/* One row of a norm's input lies in `stride` values. */
static void norm_narrow(const struct forward *forward, const float *weight, float *x, size_t stride, size_t n_rows,
			size_t n_cols)
{
	forward->compute->rms_norm(x, stride, weight, forward->model->norm_offset, forward->model->norm_eps, n_rows, n_cols,
				   x, stride);
}

static int make_latent_q(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
			 const struct sequence *sequence, struct err *err)
{
	const struct linear *l = layer->linear;
	size_t n = sequence->n_tokens, rank = forward->model->latent.q_rank;

	if (!rank)
		return linear_run(forward, lane, layer, &l[LINEAR_Q], sequence, lane->normed, n, lane->q, err);
	if (linear_run(forward, lane, layer, &l[LINEAR_Q_A], sequence, lane->normed, n, lane->narrow, err))
		return -1;
	norm_narrow(forward, layer->vector[VECTOR_NORM_Q_A], lane->narrow, rank, n, rank);
	return linear_run(forward, lane, layer, &l[LINEAR_Q_B], sequence, lane->narrow, n, lane->q, err);
}

/* Keys of a token: each head's still part, and behind it the turning part that all share. */
static void join_keys(const struct model *model, const float *turning, const float *expanded, float *k, float *v)
{
	const struct latent *latent = &model->latent;

	for (size_t h = 0; h < model->n_heads; h++) {
		memcpy(k, expanded, latent->still * sizeof *k);
		memcpy(k + latent->still, turning, latent->turning * sizeof *k);
		memcpy(v, expanded + latent->still, model->value_dim * sizeof *v);
		k += model->head_dim;
		v += model->value_dim;
		expanded += latent->still + model->value_dim;
	}
}

/* Multi-head latent attention (DeepSeek-V2): q, k and v as heads see them. */
static int make_latent(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		       const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	const struct latent *latent = &model->latent;
	const struct linear *l = layer->linear;
	size_t n = sequence->n_tokens, wide = latent->kv_rank + latent->turning;
	size_t q = model->n_heads * model->head_dim, v = model->n_heads * model->value_dim;

	if (make_latent_q(forward, lane, layer, sequence, err) ||
	    linear_run(forward, lane, layer, &l[LINEAR_KV_A], sequence, lane->normed, n, lane->narrow, err))
		return -1;
	norm_narrow(forward, layer->vector[VECTOR_NORM_KV_A], lane->narrow, wide, n, latent->kv_rank);
	/* mixed holds the turning parts while the others are expanded. */
	cut_columns(lane->narrow, n, wide, latent->kv_rank, latent->turning, lane->mixed);
	cut_columns(lane->narrow, n, wide, 0, latent->kv_rank, lane->narrow);
	if (linear_run(forward, lane, layer, &l[LINEAR_KV_B], sequence, lane->narrow, n, lane->expanded, err))
		return -1;
	for (size_t t = 0; t < n; t++) {
		float *turning = lane->mixed + t * latent->turning;

		part_pairs(turning, latent->turning, lane->scores);
		for (size_t h = 0; h < model->n_heads; h++)
			part_pairs(lane->q + t * q + h * model->head_dim + latent->still, latent->turning, lane->scores);
		join_keys(model, turning, lane->expanded + t * l[LINEAR_KV_B].ref->n, lane->k + t * q,
			  lane->v + t * v);
	}
	return 0;
}

/* Each head of each token by itself. */
static void norm_heads(const struct forward *forward, const float *weight, float *x, size_t n)
{
	const struct model *model = forward->model;

	if (weight)
		forward->compute->rms_norm(x, model->head_dim, weight, model->norm_offset, model->norm_eps, n,
					   model->head_dim, x, model->head_dim);
}

/* Angles stay from layer to layer. */
static void angles_ready(struct forward_lane *lane, const struct rope *rope, size_t n_tokens)
{
	if (lane->rope != rope)
		lane->n_angles = 0;
	lane->rope = rope;
	for (; lane->n_angles < n_tokens; lane->n_angles++)
		rope_angles(rope, lane->n_angles, lane->cosines + lane->n_angles * (rope->n / 2),
			    lane->sines + lane->n_angles * (rope->n / 2));
}

static void rotate(const struct forward *forward, struct forward_lane *lane, const struct layer *layer, size_t n_tokens)
{
	const struct model *model = forward->model;
	const struct rope *rope = layer->ref->rope;
	size_t q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
	size_t still = model->latent.still;

	angles_ready(lane, rope, n_tokens);
	for (size_t t = 0; t < n_tokens; t++) {
		const float *cosines = lane->cosines + t * (rope->n / 2), *sines = lane->sines + t * (rope->n / 2);

		forward->compute->rope(lane->q + t * q + still, model->n_heads, model->head_dim, cosines, sines, rope->n);
		forward->compute->rope(lane->k + t * kv + still, model->n_kv_heads, model->head_dim, cosines, sines,
				       rope->n);
	}
}

static int observe(const struct forward *forward, const struct forward_lane *lane, const struct layer *layer,
		   const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	size_t q = model->n_heads * model->head_dim, k = model->n_kv_heads * model->head_dim;
	const struct {
		enum sight what;
		const float *values;
		size_t n_cols;
	} seen[] = {
		{ SIGHT_Q, lane->q, q }, { SIGHT_K, lane->k, k }, { SIGHT_V, lane->v, model->n_kv_heads * model->value_dim },
	};

	for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
		struct sighting sighting = { .what = seen[i].what, .layer = layer->ref, .lane = lane->number,
					     .sequence = sequence->index, .values = seen[i].values,
					     .n_rows = sequence->n_tokens, .n_cols = seen[i].n_cols };

		if (forward_show(forward, &sighting, err))
			return -1;
	}
	return 0;
}

/* All queries of the heads that share one head of keys and values. */
static void attend(const struct forward *forward, struct forward_lane *lane, const struct layer *layer, size_t group,
		   size_t n_tokens)
{
	const struct model *model = forward->model;
	const struct compute *compute = forward->compute;
	const float *sinks = layer->vector[VECTOR_SINKS];
	size_t q = model->n_heads * model->head_dim, k = model->n_kv_heads * model->head_dim;
	size_t v = model->n_kv_heads * model->value_dim, mixed = model->n_heads * model->value_dim;
	size_t n_heads = model->n_heads / model->n_kv_heads;
	struct attention attention = { .n_tokens = n_tokens, .head_dim = model->head_dim, .value_dim = model->value_dim,
				       .window = layer->ref->window, .keys = lane->keys, .values = lane->values,
				       .scores = lane->scores, .mixed = lane->mixing };

	compute->attention_pack(&attention, lane->k + group * model->head_dim, k, lane->v + group * model->value_dim, v);
	for (size_t head = group * n_heads; head < (group + 1) * n_heads; head++) {
		attention.softmax = (struct softmax){ model->attention_scale, model->attention_softcap,
						      sinks ? sinks + head : NULL };
		for (size_t first = 0; first < n_tokens; first += ATTENTION_QUERIES) {
			size_t n = n_tokens - first < ATTENTION_QUERIES ? n_tokens - first : ATTENTION_QUERIES;

			compute->attend(&attention, lane->q + first * q + head * model->head_dim, q, first, n,
					lane->mixed + first * mixed + head * model->value_dim, mixed);
		}
	}
}

int forward_attention(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		      const struct sequence *sequence, struct err *err)
{
	const struct model *model = forward->model;
	size_t n = sequence->n_tokens;

	if (model->latent.kv_rank ? make_latent(forward, lane, layer, sequence, err)
				  : make_qkv(forward, lane, layer, sequence, err))
		return -1;
	norm_heads(forward, layer->vector[VECTOR_NORM_Q], lane->q, n * model->n_heads);
	norm_heads(forward, layer->vector[VECTOR_NORM_K], lane->k, n * model->n_kv_heads);
	rotate(forward, lane, layer, n);
	if (observe(forward, lane, layer, sequence, err))
		return -1;
	for (size_t group = 0; group < model->n_kv_heads; group++)
		attend(forward, lane, layer, group, n);
	return linear_run(forward, lane, layer, &layer->linear[LINEAR_O], sequence, lane->mixed, n, lane->out, err);
}
