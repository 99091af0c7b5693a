/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated DeltaNet (arXiv 2412.06464) of one sequence, as Qwen3-Next and Qwen3.5 have it, and Kimi
 * Delta Attention (arXiv 2510.26692): a causal convolution of q, k and v, the scan, and the norm of
 * its output with a gate.  Source: transformers 5.23, modeling_qwen3_next.py and
 * modeling_kimi_linear.py.
 */
#include <math.h>

#include "forward/pass.h"

#define L2_EPS 1e-6f /* of the sum of squares */

_Static_assert(MODEL_MAX_KEY_DIM <= DELTA_MAX_KEY_DIM, "a state fits the executors");

/* The sizes of a layer. */
struct sizes {
	size_t n;	     /* tokens */
	size_t keys, values; /* of a token */
	size_t group;	     /* value heads of a key head */
};

/* Some of the convolution's channels: q, k or v. */
struct channels {
	struct rows_in x, weight;
	size_t first, n;
	float *y; /* (tokens, n) */
};

static struct sizes sizes_of(const struct pass *pass)
{
	const struct delta *delta = &pass->forward->model->delta;

	return (struct sizes){ .n = pass->sequence->n_tokens,
			       .keys = delta->n_key_heads * delta->key_dim,
			       .values = delta->n_heads * delta->value_dim,
			       .group = delta->n_heads / delta->n_key_heads };
}

/* Copies n_cols columns of each key head, whose rows are `stride` apart, to y without gaps. */
static void part(const struct pass *pass, float *y, const float *x, size_t stride, size_t n_cols)
{
	struct workspace *w = pass->workspace;
	const struct copy_args args = { .y = { y, n_cols },
					.x = { x, stride },
					.repeat = 1,
					.n_rows = pass->sequence->n_tokens *
						  pass->forward->model->delta.n_key_heads,
					.n_cols = n_cols };

	w->ops->copy(w->stream, &args);
}

/* Qwen3-Next: two matrices, whose outputs are ordered by key head.  q, k and v lie in delta.qkv one
 * after the other. */
static void project_joined(const struct pass *pass, struct channels *channels)
{
	const struct linear *l = pass->layer->linear;
	const struct delta *delta = &pass->forward->model->delta;
	const struct sizes s = sizes_of(pass);
	struct workspace *w = pass->workspace;
	struct delta_arrays *d = &w->delta;
	const struct linear *const both[] = { &l[LINEAR_DELTA_QKVZ], &l[LINEAR_DELTA_BA] };
	float *const ys[] = { w->fused_out, d->ba };
	const struct products products = {
		.linears = both, .n = 2, .x = w->own->normed, .m = s.n, .ys = ys
	};
	size_t key = delta->key_dim, value = s.group * delta->value_dim;
	size_t stride = 2 * (key + value);
	float *from = w->fused_out, *q = d->qkv, *k = q + s.n * s.keys, *v = k + s.n * s.keys;

	pass_products(pass, &products);
	part(pass, q, from, stride, key);
	part(pass, k, from + key, stride, key);
	part(pass, v, from + 2 * key, stride, value);
	part(pass, d->z, from + 2 * key + value, stride, value);
	part(pass, d->b, d->ba, 2 * s.group, s.group);
	part(pass, d->a, d->ba + s.group, 2 * s.group, s.group);
	channels[0].x = (struct rows_in){ q, s.keys };
	channels[1].x = (struct rows_in){ k, s.keys };
	channels[2].x = (struct rows_in){ v, s.values };
}

/* Qwen3.5: q, k and v side by side from one matrix, the others from one each. */
static void project_apart(const struct pass *pass, struct channels *channels)
{
	const struct linear *l = pass->layer->linear;
	const struct sizes s = sizes_of(pass);
	struct workspace *w = pass->workspace;
	struct delta_arrays *d = &w->delta;
	const struct linear *const four[] = { &l[LINEAR_DELTA_QKV], &l[LINEAR_DELTA_Z],
					      &l[LINEAR_DELTA_B], &l[LINEAR_DELTA_A] };
	float *const ys[] = { d->qkv, d->z, d->b, d->a };
	const struct products products = {
		.linears = four, .n = 4, .x = w->own->normed, .m = s.n, .ys = ys
	};

	for (int i = 0; i < 3; i++)
		channels[i].x =
			(struct rows_in){ d->qkv + channels[i].first, 2 * s.keys + s.values };
	pass_products(pass, &products);
}

/* Kimi Delta Attention: q, k, v and the rates from one matrix each, and so are decays and gates, or
 * they come through fewer values. */
static void project_kda(const struct pass *pass, struct channels *channels)
{
	const struct linear *l = pass->layer->linear;
	const struct sizes s = sizes_of(pass);
	struct workspace *w = pass->workspace;
	struct delta_arrays *d = &w->delta;
	bool whole = !l[LINEAR_DELTA_F_A].weight.data;
	const struct linear *const six[] = { &l[LINEAR_DELTA_Q],
					     &l[LINEAR_DELTA_K],
					     &l[LINEAR_DELTA_V],
					     &l[LINEAR_DELTA_B],
					     &l[whole ? LINEAR_DELTA_A : LINEAR_DELTA_F_A],
					     &l[whole ? LINEAR_DELTA_Z : LINEAR_DELTA_G_A] };
	float *const ys[] = { d->qkv, d->qkv + s.n * s.keys,	    d->qkv + 2 * s.n * s.keys,
			      d->b,   whole ? d->a : d->few_decays, whole ? d->z : d->few_gates };
	const struct products products = {
		.linears = six, .n = 6, .x = w->own->normed, .m = s.n, .ys = ys
	};

	for (int i = 0; i < 3; i++) {
		channels[i].x = (struct rows_in){ ys[i], channels[i].n };
		channels[i].weight =
			(struct rows_in){ pass->layer->vector[VECTOR_CONV_Q + i], channels[i].n };
	}
	pass_products(pass, &products);
	if (whole)
		return;
	pass_linear(pass, &l[LINEAR_DELTA_F_B], d->few_decays, s.n, d->a);
	pass_linear(pass, &l[LINEAR_DELTA_G_B], d->few_gates, s.n, d->z);
}

static void project(const struct pass *pass, struct channels *channels)
{
	const struct linear *l = pass->layer->linear;
	const struct sizes s = sizes_of(pass);
	const float *weight = pass->layer->vector[VECTOR_CONV];

	if (l[LINEAR_DELTA_Q].weight.data) {
		project_kda(pass, channels);
		return;
	}
	for (int i = 0; i < 3; i++)
		channels[i].weight =
			(struct rows_in){ weight + channels[i].first, 2 * s.keys + s.values };
	if (l[LINEAR_DELTA_QKVZ].weight.data)
		project_joined(pass, channels);
	else
		project_apart(pass, channels);
}

static void convolve(const struct pass *pass, const struct channels *channels)
{
	struct workspace *w = pass->workspace;
	const struct convolve_args args = { .activation = ACT_SILU,
					    .x = channels->x,
					    .weight = channels->weight,
					    .width = pass->forward->model->delta.conv_width,
					    .n_tokens = pass->sequence->n_tokens,
					    .n_cols = channels->n,
					    .y = { channels->y, channels->n } };

	w->ops->convolve(w->stream, &args);
}

/* x = x scale / sqrt(sum of squares + eps), for each head of keys or queries. */
static void l2_norm(const struct pass *pass, float *x, float scale)
{
	const struct delta *delta = &pass->forward->model->delta;
	size_t n = delta->key_dim;
	struct workspace *w = pass->workspace;
	const struct rms_norm_args args = { .x = { x, n },
					    .offset = scale / sqrtf((float)n),
					    .eps = L2_EPS / (float)n,
					    .n_rows = pass->sequence->n_tokens * delta->n_key_heads,
					    .n_cols = n,
					    .y = { x, n } };

	w->ops->rms_norm(w->stream, &args);
}

static void scan(const struct pass *pass)
{
	const struct delta *delta = &pass->forward->model->delta;
	float *const *vector = pass->layer->vector;
	struct workspace *w = pass->workspace;
	const struct delta_arrays *d = &w->delta;
	const struct delta_args args = { .n_tokens = pass->sequence->n_tokens,
					 .n_heads = delta->n_heads,
					 .n_key_heads = delta->n_key_heads,
					 .key_dim = delta->key_dim,
					 .value_dim = delta->value_dim,
					 .n_decays = delta->n_decays,
					 .q = d->q,
					 .k = d->k,
					 .v = d->v,
					 .a = d->a,
					 .b = d->b,
					 .a_log = vector[VECTOR_A_LOG],
					 .dt_bias = vector[VECTOR_DT_BIAS],
					 .lower_bound = delta->lower_bound,
					 .y = d->out,
					 .scratch = pass->workspace->scratch };

	w->ops->delta(w->stream, &args);
}

/* out = norm(out) gate(z), head by head.  The weight of this norm is the whole factor, also where
 * other norms of the model multiply by 1 + weight. */
static void norm_gated(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	size_t n = model->delta.value_dim, n_rows = pass->sequence->n_tokens * model->delta.n_heads;
	struct workspace *w = pass->workspace;
	const struct delta_arrays *d = &w->delta;
	const struct rms_norm_args norm = { .x = { d->out, n },
					    .weight = pass->layer->vector[VECTOR_NORM_GATED],
					    .eps = model->norm_eps,
					    .n_rows = n_rows,
					    .n_cols = n,
					    .y = { d->out, n } };
	const struct gate_args gate = { .activation = model->delta.gate,
					.gate = { d->z, n },
					.up = { d->out, n },
					.n_rows = n_rows,
					.n_cols = n,
					.y = { d->out, n } };

	w->ops->rms_norm(w->stream, &norm);
	w->ops->gate(w->stream, &gate);
}

void delta_run(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;
	const struct sizes s = sizes_of(pass);
	struct workspace *w = pass->workspace;
	struct delta_arrays *d = &w->delta;
	struct channels channels[] = { { .n = s.keys, .y = d->q },
				       { .first = s.keys, .n = s.keys, .y = d->k },
				       { .first = 2 * s.keys, .n = s.values, .y = d->v } };

	project(pass, channels);
	for (int i = 0; i < 3; i++)
		convolve(pass, &channels[i]);
	l2_norm(pass, d->q, 1.0f / sqrtf((float)pass->forward->model->delta.key_dim));
	l2_norm(pass, d->k, 1);
	scan(pass);
	norm_gated(pass);
	pass_linear(pass, &l[LINEAR_DELTA_OUT], d->out, s.n, w->own->out);
}
