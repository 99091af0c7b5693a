/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections: the residual stream as several vectors.  A block takes a sum of them, and its
 * output is mixed with all of them.  The weights are fp32, and so is what they are made of.
 */
#include "forward/pass.h"

bool streams_are_mixed(const struct pass *pass)
{
	return pass->forward->model->streams.n_rounds > 0;
}

size_t streams_n_mixes(const struct model *model)
{
	size_t n = model->streams.n;

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

/* y = the mean of the vectors of each token. */
static const float *mean_of(const struct pass *pass, const struct mix_streams_args *of)
{
	const struct convolve_args args = { .x = { of->streams, of->n_cols },
					    .width = of->n_streams,
					    .pool = of->n_streams,
					    .n_tokens = of->n_tokens * of->n_streams,
					    .n_cols = of->n_cols,
					    .y = { of->y, of->n_cols } };

	pass->workspace->ops->convolve(pass->workspace->stream, &args);
	return of->y;
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
	if (!args.fn)
		return mean_of(pass, &args);
	pass->workspace->ops->mix_streams(pass->workspace->stream, &args);
	return y;
}
