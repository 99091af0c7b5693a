/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections: the residual stream as several vectors.  A block takes a sum of them, and its
 * output is mixed with all of them.  The weights are fp32, and so is what they are made of.
 */
#include "forward/pass.h"

bool streams_are_mixed(const struct pass *pass)
{
	const struct streams *streams = &pass->forward->model->streams;

	return streams->n_rounds > 0 || streams->rank > 0;
}

size_t streams_n_mixes(const struct model *model)
{
	size_t n = model->streams.n;

	if (model->streams.rank)
		return n;
	return model->streams.n_rounds ? n + n * n : 0;
}

static struct mix_streams_args args_of(const struct pass *pass)
{
	const struct model *model = pass->forward->model;

	return (struct mix_streams_args){ .n_tokens = pass->sequence->n_tokens,
					  .n_streams = model->streams.n,
					  .n_cols = model->hidden,
					  .streams = pass->sequence->residual,
					  .norm_eps = model->norm_eps,
					  .eps = model->streams.eps,
					  .n_rounds = model->streams.n_rounds,
					  .y = pass->workspace->own->out };
}

const float *streams_begin(const struct pass *pass, enum vector_role mix)
{
	float *const *vector = pass->layer->vector;
	struct mix_streams_args args = args_of(pass);
	bool attention = mix == VECTOR_MIX_ATTENTION;

	if (pass->forward->model->streams.rank) {
		low_rank_begin(pass, mix);
		return args.y;
	}
	args.weights = pass->workspace->own->mixes;
	args.fn = vector[mix];
	args.base = vector[attention ? VECTOR_MIX_ATTENTION_BASE : VECTOR_MIX_MLP_BASE];
	args.scale = vector[attention ? VECTOR_MIX_ATTENTION_SCALE : VECTOR_MIX_MLP_SCALE];
	pass->workspace->ops->mix_streams(pass->workspace->stream, &args);
	return args.y;
}

void streams_end(const struct pass *pass)
{
	struct mix_streams_args args = args_of(pass);

	pass_observe_out(pass);
	args.weights = pass->workspace->own->mixes;
	pass->workspace->ops->mix_streams(pass->workspace->stream, &args);
}

void streams_mean(const struct pass *pass, const float *x, size_t m, float *y)
{
	size_t n = pass->forward->model->streams.n, hidden = pass->forward->model->hidden;
	const struct convolve_args args = { .x = { x, hidden },
					    .width = n,
					    .pool = n,
					    .n_tokens = m * n,
					    .n_cols = hidden,
					    .y = { y, hidden } };

	pass->workspace->ops->convolve(pass->workspace->stream, &args);
}

/* y (m, hidden) = the first vector of m tokens. */
static void take_first(const struct pass *pass, const float *streams, size_t m, float *y)
{
	size_t n = pass->forward->model->streams.n, hidden = pass->forward->model->hidden;
	const struct copy_args args = { .y = { y, hidden },
					.x = { streams, n * hidden },
					.repeat = 1,
					.n_rows = m,
					.n_cols = hidden };

	pass->workspace->ops->copy(pass->workspace->stream, &args);
}

const float *streams_last(const struct head_pass *run, size_t first, size_t m, float *y)
{
	const struct pass *pass = &run->pass;
	struct mix_streams_args args = args_of(pass);

	args.streams += first * args.n_streams * args.n_cols;
	args.n_tokens = m;
	args.fn = run->head.last[LAST_MIX];
	args.base = run->head.last[LAST_MIX_BASE];
	args.scale = run->head.last[LAST_MIX_SCALE];
	args.y = y;
	if (!streams_are_mixed(pass))
		return args.streams;
	if (pass->forward->model->streams.rank)
		take_first(pass, args.streams, m, y);
	else if (args.fn)
		pass->workspace->ops->mix_streams(pass->workspace->stream, &args);
	else
		streams_mean(pass, args.streams, m, y);
	return y;
}

void streams_norm(const struct pass *pass, const float *x, const float *weight, float *y)
{
	size_t hidden = pass->forward->model->hidden, n = pass->forward->model->streams.n;

	for (size_t j = 0; j < n; j++)
		pass_norm(pass, (struct rows_in){ x + j * hidden, n * hidden }, weight + j * hidden,
			  (struct rows_out){ y + j * hidden, n * hidden }, pass->sequence->n_tokens,
			  hidden);
}

void streams_list_arrays(struct workspace *w, const struct model *model, uint64_t n_tokens)
{
	size_t rank = model->streams.rank, hidden = rank ? model->hidden : 0;
	uint64_t row = n_tokens * sizeof(float), wide = row * model->streams.n * hidden;

	workspace_add(&w->arrays, &w->streams.normed, wide, false);
	workspace_add(&w->arrays, &w->streams.gates, wide, false);
	workspace_add(&w->arrays, &w->streams.few, row * rank, false);
	workspace_add(&w->arrays, &w->streams.one, row * hidden, false);
}

uint64_t streams_widest_input(const struct model *model)
{
	const struct streams *streams = &model->streams;
	size_t wide = streams->rank ? streams->n * model->hidden : 0;

	wide = wide > streams->rank ? wide : streams->rank;
	return wide > model->ngrams.dim ? wide : model->ngrams.dim;
}
