/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections of low rank (Qwen3.8): what a block takes is the mean of the normed vectors of
 * the residual stream, in which each value has a gate.  Two small matrices make the gates; a third
 * one makes the factors by which the vectors take the block's output.  Source: transformers 5.23,
 * modeling_qwen4_exp.py.
 */
#include "forward/pass.h"

/* The matrices and the norm in one place. */
struct mix {
	enum linear_role down, up, inject; /* inject N_LINEARS: none */
	enum vector_role norm;
};

/* normed and few of the workspace become the normed vectors and their few values; own->mixes
 * (tokens, n) the factors of the block's output. */
static void project(const struct pass *pass, const struct mix *mix)
{
	const struct linear *l = pass->layer->linear;
	const struct streams *streams = &pass->forward->model->streams;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;
	const struct linear *const both[] = { &l[mix->down],
					      mix->inject == N_LINEARS ? NULL : &l[mix->inject] };
	float *const ys[] = { w->streams.few, w->own->mixes };
	const struct products products = {
		.linears = both, .n = both[1] ? 2 : 1, .x = w->streams.normed, .m = n, .ys = ys
	};
	float part = 1 / (float)streams->n;

	streams_norm(pass, pass->sequence->residual, pass->layer->vector[mix->norm],
		     w->streams.normed);
	pass_products(pass, &products);
	pass_scale(pass, w->streams.few, part, n, streams->rank);
	pass_activate(pass, ACT_SILU, w->streams.few, n * streams->rank);
	if (!both[1])
		return;
	pass_scale(pass, w->own->mixes, part, n, streams->n);
	pass_activate(pass, ACT_SIGMOID, w->own->mixes, n * streams->n);
	pass_scale(pass, w->own->mixes, 2, n, streams->n);
}

static void mix_vectors(const struct pass *pass, const struct mix *mix)
{
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;
	size_t wide = pass->forward->model->streams.n * pass->forward->model->hidden;
	const struct gate_args gate = { .activation = ACT_SIGMOID,
					.gate = { w->streams.gates, wide },
					.up = { w->streams.normed, wide },
					.n_rows = n,
					.n_cols = wide,
					.y = { w->streams.gates, wide } };

	project(pass, mix);
	pass_linear(pass, &pass->layer->linear[mix->up], w->streams.few, n, w->streams.gates);
	w->ops->gate(w->stream, &gate);
	streams_mean(pass, w->streams.gates, n, w->own->out);
}

void low_rank_begin(const struct pass *pass, enum vector_role role)
{
	static const struct mix attention = { LINEAR_MIX_DOWN, LINEAR_MIX_UP, LINEAR_MIX_INJECT,
					      VECTOR_NORM_MIX },
				mlp = { LINEAR_MLP_MIX_DOWN, LINEAR_MLP_MIX_UP,
					LINEAR_MLP_MIX_INJECT, VECTOR_NORM_MLP_MIX };

	mix_vectors(pass, role == VECTOR_MIX_ATTENTION ? &attention : &mlp);
}

void low_rank_last(const struct pass *pass)
{
	static const struct mix last = { LINEAR_LAST_MIX_DOWN, LINEAR_LAST_MIX_UP, N_LINEARS,
					 VECTOR_NORM_LAST_MIX };
	const struct model *model = pass->forward->model;
	struct workspace *w = pass->workspace;
	const struct copy_args copy = { .y = { pass->sequence->residual,
					       model->streams.n * model->hidden },
					.x = { w->own->out, model->hidden },
					.repeat = 1,
					.n_rows = pass->sequence->n_tokens,
					.n_cols = model->hidden };

	mix_vectors(pass, &last);
	w->ops->copy(w->stream, &copy);
}
