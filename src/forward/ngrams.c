/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-gram embedding of a layer (Qwen3.8): each vector of the residual stream takes its values,
 * as far as it agrees with its keys; a convolution adds what tokens before have taken.  Source:
 * transformers 5.23, modeling_qwen4_exp.py.
 */
#include "forward/pass.h"

/* keys (tokens, n, hidden), normed, and values (tokens, hidden) of the embedding. */
static void project(const struct pass *pass, float *keys, float *values)
{
	const struct model *model = pass->forward->model;
	const struct linear *l = pass->layer->linear;
	size_t n = pass->sequence->n_tokens, number = pass->layer->ref->ngrams - 1;
	const struct linear *const both[] = { &l[LINEAR_NGRAM_KEY], &l[LINEAR_NGRAM_VALUE] };
	float *const ys[] = { keys, values };
	const struct products products = { .linears = both,
					   .n = 2,
					   .x = pass->sequence->residual +
						n * (model->stream.ngrams +
						     number * model->ngrams.dim),
					   .m = n,
					   .ys = ys };

	pass_products(pass, &products);
	streams_norm(pass, keys, pass->layer->vector[VECTOR_NORM_NGRAM_KEY], keys);
}

/* The values with their gates, for each vector of the stream: (tokens, n, hidden). */
static void gate(const struct pass *pass, float *y)
{
	const struct model *model = pass->forward->model;
	struct workspace *w = pass->workspace;
	const struct mix_streams_args args = { .n_tokens = pass->sequence->n_tokens,
					       .n_streams = model->streams.n,
					       .n_cols = model->hidden,
					       .streams = y,
					       .keys = w->streams.gates,
					       .y = w->streams.one };

	project(pass, w->streams.gates, w->streams.one);
	streams_norm(pass, pass->sequence->residual, pass->layer->vector[VECTOR_NORM_NGRAM_QUERY],
		     y);
	w->ops->mix_streams(w->stream, &args);
}

/* y = silu(the convolution of x), whose tokens are `size` apart; both are (tokens, n * hidden). */
static void convolve(const struct pass *pass, const float *x, float *y)
{
	const struct model *model = pass->forward->model;
	size_t wide = model->streams.n * model->hidden, step = model->ngrams.size;
	size_t n = pass->sequence->n_tokens;

	for (size_t first = 0; first < step && first < n; first++) {
		const struct convolve_args args = {
			.activation = ACT_SILU,
			.x = { x + first * wide, step * wide },
			.weight = { pass->layer->vector[VECTOR_NGRAM_CONV], wide },
			.width = model->ngrams.conv_width,
			.n_tokens = (n - first + step - 1) / step,
			.n_cols = wide,
			.y = { y + first * wide, step * wide },
		};

		pass->workspace->ops->convolve(pass->workspace->stream, &args);
	}
}

void ngrams_run(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens * model->streams.n * model->hidden;
	float *values = w->streams.normed, *convolved = w->streams.gates;

	gate(pass, values);
	pass_add(pass, pass->sequence->residual, values, n);
	streams_norm(pass, values, pass->layer->vector[VECTOR_NORM_NGRAM_CONV], values);
	convolve(pass, values, convolved);
	pass_add(pass, pass->sequence->residual, convolved, n);
}
