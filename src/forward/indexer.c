/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556; MiniMax-M3): few queries and
 * one key for each token, whose products choose the keys that attention takes, or blocks of them.
 * The keys of a pool of tokens may be one (GLM-5.3): a query gets the tokens of the pools that it
 * chooses among those that end before it or with it, and the tokens behind them.
 * The sets that later layers share lie with the sequence, behind its residual stream.
 */
#include "forward/pass.h"

#define INDEX_NORM_EPS 1e-6f /* of LayerNorm, whatever rms_norm_eps is */

/* Returns the whole pools of tokens; 0: the model has no such pools. */
static size_t n_pools_of(const struct pass *pass)
{
	size_t size = pass->forward->model->indexer.pool_size;

	return size ? pass->sequence->n_tokens / size : 0;
}

/* Does a query of the sequence lack a key that is before it? */
static bool chooses(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	size_t n_tokens = pass->sequence->n_tokens;

	if (pass->layer->ref->keys == KEYS_ALL || pass->layer->ref->pool_size)
		return false;
	if (indexer->pool_size)
		return n_pools_of(pass) > indexer->n_chosen;
	return (n_tokens + indexer->block_size - 1) / indexer->block_size > indexer->n_chosen;
}

float *indexer_queries(const struct pass *pass)
{
	struct workspace *w = pass->workspace;

	return pass->forward->model->indexer.n_joined ? w->index.joined : w->index.q;
}

float *indexer_keys(const struct pass *pass)
{
	struct workspace *w = pass->workspace;

	return pass->forward->model->indexer.pool_size ? w->pool.index_values : w->index.k;
}

/* Returns where the sets are. */
static uint32_t *sets_of(const struct pass *pass)
{
	const struct stream_places *stream = &pass->forward->model->stream;
	void *shared = pass->sequence->residual + pass->sequence->n_tokens * stream->width;

	return stream->has_sets ? shared : pass->workspace->index.sets;
}

const uint32_t *indexer_sets(const struct pass *pass)
{
	return chooses(pass) ? sets_of(pass) : NULL;
}

/* Norms n_rows keys of x (n_rows, head_dim) by LayerNorm. */
static void norm_centered(const struct pass *pass, float *x, size_t n_rows)
{
	size_t n = pass->forward->model->indexer.head_dim;
	const struct rms_norm_args args = { .x = { x, n },
					    .centered = true,
					    .weight = pass->layer->vector[VECTOR_NORM_INDEX_K],
					    .eps = INDEX_NORM_EPS,
					    .n_rows = n_rows,
					    .n_cols = n,
					    .y = { x, n } };

	pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
	pass_bias(pass, pass->layer->vector[VECTOR_NORM_INDEX_K_BIAS], x, n_rows, n);
}

/* Norms the queries, if the layer has such a norm. */
static void norm_queries(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	const float *weight = pass->layer->vector[VECTOR_NORM_INDEX_Q];
	size_t n_rows = pass->sequence->n_tokens * indexer->n_heads, n_cols = indexer->head_dim;
	float *q = pass->workspace->index.q;

	if (weight)
		pass_norm(pass, (struct rows_in){ q, n_cols }, weight,
			  (struct rows_out){ q, n_cols }, n_rows, n_cols);
}

/* Norms n_rows keys of k. */
static void norm_keys(const struct pass *pass, float *k, size_t n_rows)
{
	size_t n_cols = pass->forward->model->indexer.head_dim;

	if (pass->layer->vector[VECTOR_NORM_INDEX_K_BIAS])
		norm_centered(pass, k, n_rows);
	else
		pass_norm(pass, (struct rows_in){ k, n_cols },
			  pass->layer->vector[VECTOR_NORM_INDEX_K], (struct rows_out){ k, n_cols },
			  n_rows, n_cols);
}

/* Rotates the first values of each head as attention's. */
static void rotate(const struct pass *pass, float *x, size_t n_heads)
{
	const struct model *model = pass->forward->model;
	struct rows_out heads = { x, model->indexer.head_dim };

	if (model->arch->positions.adjacent_index)
		rotation_deinterleave(pass, heads, pass->sequence->n_tokens * n_heads,
				      pass->layer->ref->rope->n);
	rotation_run_on(pass, heads, n_heads, NULL, NULL);
}

/* Parts queries and keys that one matrix makes. */
static void part(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	size_t n_queries = indexer->n_heads * indexer->head_dim;
	struct workspace *w = pass->workspace;
	struct copy_args args = { .y = { w->index.q, n_queries },
				  .x = { w->index.joined, indexer->n_joined },
				  .repeat = 1,
				  .n_rows = pass->sequence->n_tokens,
				  .n_cols = n_queries };

	w->ops->copy(w->stream, &args);
	args.x.data += n_queries;
	args.n_cols = indexer->head_dim;
	args.y = (struct rows_out){ indexer_keys(pass), indexer->head_dim };
	w->ops->copy(w->stream, &args);
}

/* Makes the keys of tokens. */
static void make_keys(const struct pass *pass)
{
	float *k = pass->workspace->index.k;

	norm_keys(pass, k, pass->sequence->n_tokens);
	if (pass->layer->ref->rope)
		rotate(pass, k, 1);
}

/* Makes the keys of n_pools pools: with gates, of normed keys, the weight of each of which is a
 * softmax of its gate; else the mean of keys, which is normed, at the place of the first. */
static void make_pools(const struct pass *pass, size_t n_pools)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	bool gated = pass->layer->linear[LINEAR_INDEX_GATE].weight.data;
	size_t n = indexer->head_dim, n_tokens = pass->sequence->n_tokens;
	struct workspace *w = pass->workspace;
	const struct convolve_args args = {
		.x = { w->pool.index_values, n },
		.gates = { gated ? w->pool.index_gates : NULL, n },
		.weight = { gated ? pass->layer->vector[VECTOR_INDEX_PLACES] : NULL, n },
		.width = indexer->pool_size,
		.pool = indexer->pool_size,
		.n_tokens = n_tokens,
		.n_cols = n,
		.y = { w->index.k, n },
	};

	if (gated)
		norm_keys(pass, w->pool.index_values, n_tokens);
	w->ops->convolve(w->stream, &args);
	if (!gated)
		norm_keys(pass, w->index.k, n_pools);
	if (pass->layer->ref->rope)
		rotation_of_pools(pass, (struct rows_out){ w->index.k, n }, n_pools,
				  indexer->pool_size);
}

void indexer_run(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	struct workspace *w = pass->workspace;
	size_t n_pools = n_pools_of(pass);
	bool weighted = pass->layer->linear[LINEAR_INDEX_WEIGHTS].weight.data;
	const struct choose_keys_args args = { .n_tokens = pass->sequence->n_tokens,
					       .n_heads = indexer->n_heads,
					       .head_dim = indexer->head_dim,
					       .q = w->index.q,
					       .k = w->index.k,
					       .weights = weighted ? w->index.weights : NULL,
					       .block_size = indexer->block_size,
					       .n_chosen = indexer->n_chosen,
					       .n_local = indexer->n_local,
					       .pool_size = indexer->pool_size,
					       .n_pools = n_pools,
					       .of_tokens = n_pools > 0,
					       .together = n_pools > 0,
					       .sets = sets_of(pass),
					       .scratch = w->scratch };

	if (pass->layer->ref->keys != KEYS_CHOSEN || !chooses(pass))
		return;
	if (indexer->n_joined)
		part(pass);
	norm_queries(pass);
	if (pass->layer->ref->rope)
		rotate(pass, w->index.q, indexer->n_heads);
	if (n_pools)
		make_pools(pass, n_pools);
	else
		make_keys(pass);
	w->ops->choose_keys(w->stream, &args);
}
