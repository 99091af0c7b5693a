/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed keys (DeepSeek-V4): the tokens of a pool have one key besides, which is its value too.
 * A query has its window and the pools that end before it or with it: all of them, or those that an
 * indexer chooses, whose keys are made in the same way.
 */
#include "forward/pass.h"

size_t pools_count(const struct pass *pass)
{
	size_t size = pass->layer->ref->pool_size;

	return size ? pass->sequence->n_tokens / size : 0;
}

/* What the keys of pools are made of, and where they go. */
struct pool_source {
	const float *values, *gates; /* (tokens, n_cols), or twice as many columns */
	enum vector_role places, norm;
	float *y; /* (pools, n_cols) */
	size_t n_cols;
};

static void make_keys(const struct pass *pass, const struct pool_source *from, size_t n_pools)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	size_t parts = ref->pools_overlap ? 2 : 1, stride = parts * from->n_cols;
	const struct convolve_args args = { .x = { from->values, stride },
					    .gates = { from->gates, stride },
					    .weight = { pass->layer->vector[from->places], stride },
					    .width = parts * ref->pool_size,
					    .pool = ref->pool_size,
					    .n_tokens = pass->sequence->n_tokens,
					    .n_cols = from->n_cols,
					    .y = { from->y, from->n_cols } };

	w->ops->convolve(w->stream, &args);
	pass_norm(pass, (struct rows_in){ from->y, from->n_cols }, pass->layer->vector[from->norm],
		  (struct rows_out){ from->y, from->n_cols }, n_pools, from->n_cols);
	rotation_of_pools(pass, (struct rows_out){ from->y, from->n_cols }, n_pools,
			  ref->pool_size);
}

/* Copies n_rows keys. */
static void copy_keys(const struct pass *pass, float *y, const float *x, size_t n_rows)
{
	size_t n_cols = pass->layer->ref->head_dim;
	const struct copy_args args = { .y = { y, n_cols },
					.x = { x, n_cols },
					.repeat = 1,
					.n_rows = n_rows,
					.n_cols = n_cols };

	pass->workspace->ops->copy(pass->workspace->stream, &args);
}

/* Whether a query may lack a pool that ends before it. */
static bool chooses(const struct pass *pass, size_t n_pools)
{
	return pass->layer->ref->keys == KEYS_CHOSEN &&
	       n_pools > pass->forward->model->indexer.n_chosen;
}

/* Makes the keys and turns the queries of the indexer. */
static void run_indexer(const struct pass *pass, size_t n_pools)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	struct workspace *w = pass->workspace;
	const struct pool_source keys = { w->pool.index_values, w->pool.index_gates,
					  VECTOR_INDEX_PLACES,	VECTOR_NORM_INDEX_K,
					  w->index.k,		indexer->head_dim };

	make_keys(pass, &keys, n_pools);
	rotation_run_on(pass, (struct rows_out){ w->index.q, indexer->head_dim }, indexer->n_heads,
			NULL, NULL);
}

static void choose(const struct pass *pass, size_t n_pools)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	struct workspace *w = pass->workspace;
	bool chosen = chooses(pass, n_pools);
	const struct choose_keys_args args = { .n_tokens = pass->sequence->n_tokens,
					       .n_heads = chosen ? indexer->n_heads : 0,
					       .head_dim = indexer->head_dim,
					       .q = w->index.q,
					       .k = w->index.k,
					       .weights = chosen ? w->index.weights : NULL,
					       .block_size = 1,
					       .n_chosen = chosen ? indexer->n_chosen : n_pools,
					       .pool_size = pass->layer->ref->pool_size,
					       .n_pools = n_pools,
					       .window = pass->layer->ref->window,
					       .sets = w->index.sets,
					       .scratch = w->scratch };

	if (chosen)
		run_indexer(pass, n_pools);
	w->ops->choose_keys(w->stream, &args);
}

void pools_run(const struct pass *pass)
{
	struct workspace *w = pass->workspace;
	size_t n_pools = pools_count(pass), n = pass->sequence->n_tokens;
	size_t n_cols = pass->layer->ref->head_dim;
	const struct pool_source keys = { w->pool.values,   w->pool.gates, VECTOR_POOL_PLACES,
					  VECTOR_NORM_POOL, w->pool.keys,  n_cols };

	if (!n_pools)
		return;
	make_keys(pass, &keys, n_pools);
	copy_keys(pass, w->pool.key_values, w->pool.keys, n_pools);
	copy_keys(pass, w->pool.keys + n_pools * n_cols, w->attention.k, n);
	copy_keys(pass, w->pool.key_values + n_pools * n_cols, w->attention.v, n);
	choose(pass, n_pools);
}
