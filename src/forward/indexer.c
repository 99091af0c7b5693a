/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556; MiniMax-M3): few queries and
 * one key for each token, whose products choose the keys that attention takes, or blocks of them.
 * The sets that later layers share lie with the sequence, behind its residual stream.
 */
#include "forward/pass.h"

#define INDEX_NORM_EPS 1e-6f /* of LayerNorm, whatever rms_norm_eps is */

/* Does a query of the sequence lack a key that is before it? */
static bool chooses(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	size_t n_tokens = pass->sequence->n_tokens;

	return pass->layer->ref->keys != KEYS_ALL && !pass->layer->ref->pool_size &&
	       (n_tokens + indexer->block_size - 1) / indexer->block_size > indexer->n_chosen;
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

/* Norms queries and keys, if the layer has such norms. */
static void norm(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	float *const *vector = pass->layer->vector;
	struct index_arrays *a = &pass->workspace->index;
	size_t n = pass->sequence->n_tokens, n_cols = indexer->head_dim;

	if (vector[VECTOR_NORM_INDEX_Q])
		pass_norm(pass, (struct rows_in){ a->q, n_cols }, vector[VECTOR_NORM_INDEX_Q],
			  (struct rows_out){ a->q, n_cols }, n * indexer->n_heads, n_cols);
	if (vector[VECTOR_NORM_INDEX_K_BIAS])
		norm_centered(pass, a->k, n);
	else
		pass_norm(pass, (struct rows_in){ a->k, n_cols }, vector[VECTOR_NORM_INDEX_K],
			  (struct rows_out){ a->k, n_cols }, n, n_cols);
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

void indexer_run(const struct pass *pass)
{
	const struct indexer *indexer = &pass->forward->model->indexer;
	struct workspace *w = pass->workspace;
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
					       .sets = sets_of(pass),
					       .scratch = w->scratch };

	if (pass->layer->ref->keys != KEYS_CHOSEN || !chooses(pass))
		return;
	norm(pass);
	rotate(pass, w->index.q, indexer->n_heads);
	rotate(pass, w->index.k, 1);
	w->ops->choose_keys(w->stream, &args);
}
