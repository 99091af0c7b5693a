/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "forward/workspace.h"
#include "num/float16.h"
#include "sweep/ngrams.h"
#include "sweep/vectors.h"

uint64_t embed_size(const struct model *model, size_t max_tokens)
{
	size_t n = model->hidden + model->n_layers * model->layer_input_dim + model->ngrams.dim;

	return max_tokens * (n * sizeof(float) + 2 * sizeof(uint32_t));
}

int embed_init(struct embed_workspace *workspace, const struct model *model, size_t max_tokens,
	       struct err *err)
{
	static const char what[] = "the embedding of a sequence";

	uint64_t ngrams = max_tokens * model->ngrams.dim * sizeof(float);
	uint64_t layers = max_tokens * model->n_layers * model->layer_input_dim * sizeof(float);

	if (buffer_alloc((void **)&workspace->distinct, max_tokens * sizeof(uint32_t), what, err) ||
	    buffer_alloc((void **)&workspace->token_rows, max_tokens * sizeof(uint32_t), what,
			 err) ||
	    buffer_alloc((void **)&workspace->rows, max_tokens * model->hidden * sizeof(float),
			 what, err))
		return -1;
	if (ngrams && buffer_alloc((void **)&workspace->ngrams, ngrams, what, err))
		return -1;
	return layers ? buffer_alloc((void **)&workspace->layer_rows, layers, what, err) : 0;
}

void embed_release(struct embed_workspace *workspace)
{
	free(workspace->distinct);
	free(workspace->token_rows);
	free(workspace->norm);
	free(workspace->rows);
	free(workspace->layer_rows);
	free(workspace->ngrams);
	*workspace = (struct embed_workspace){ 0 };
}

COMPARISON(by_token, uint32_t, ORDER(*x, *y))

/* Fills distinct and token_rows.  Returns the number of distinct tokens. */
static size_t find_distinct(struct embed_workspace *workspace, const uint32_t *tokens,
			    size_t n_tokens)
{
	uint32_t *distinct = workspace->distinct;
	size_t n = 0;

	memcpy(distinct, tokens, n_tokens * sizeof *tokens);
	sort(distinct, n_tokens, sizeof *distinct, by_token);
	for (size_t i = 0; i < n_tokens; i++)
		if (n == 0 || distinct[n - 1] != distinct[i])
			distinct[n++] = distinct[i];
	for (size_t t = 0; t < n_tokens; t++) {
		const uint32_t *found =
			bsearch(&tokens[t], distinct, n, sizeof *distinct, by_token);

		workspace->token_rows[t] = (uint32_t)(found - distinct);
	}
	return n;
}

/* An embedding: rows of width values, and their factor. */
struct embedding {
	const struct tensor_ref *ref;
	size_t width;
	float scale;
};

/* Reads the rows of n tokens, with their scaling. */
static int read_rows(struct weights *weights, const struct embedding *table, const uint32_t *tokens,
		     size_t n, float *rows, struct err *err)
{
	const struct forward *forward = weights->forward;
	float scale = table->scale;

	if (forward->round && forward->model->arch->scaled_embedding)
		scale = bf16_to_f32(bf16_from_f32(scale));
	for (size_t t = 0; t < n; t++, rows += table->width) {
		const struct table_row row = { table->ref, tokens[t], table->width };

		if (weights_read_row(weights, &row, rows, err))
			return -1;
		for (size_t i = 0; scale != 1 && i < table->width; i++)
			rows[i] *= scale;
	}
	return 0;
}

/* Reads the weight of the norm of embeddings, if the model has one, once. */
static int read_norm(struct embed_workspace *workspace, struct weights *weights, struct err *err)
{
	const struct model *model = weights->forward->model;
	const struct floats_request request = { .ref = model->embedding_norm, .n = model->hidden };

	if (!request.ref || workspace->norm)
		return 0;
	return vector_read(weights, &request, &workspace->norm, err);
}

/* Puts the n-gram embeddings of the sequence behind its residual stream. */
static int run_ngrams(struct embed_workspace *workspace, struct weights *weights,
		      const struct pass *pass, struct err *err)
{
	struct workspace *lane = pass->workspace;

	for (size_t i = 0; i < weights->forward->model->ngrams.n; i++) {
		if (ngrams_read(weights, i, pass->sequence, workspace->ngrams, err))
			return -1;
		forward_put_ngrams(pass, i, workspace->ngrams);
		if (lane->ops->wait(lane->stream, err))
			return err_wrap(err, "the n-grams of sequence %zu", pass->sequence->index);
	}
	return 0;
}

int embed_run(struct embed_workspace *workspace, struct weights *weights, struct workspace *lane,
	      const struct sequence *sequence, struct err *err)
{
	const struct model *model = weights->forward->model;
	const struct embedding tokens = { model->embedding, model->hidden, model->embedding_scale };
	const struct embedding layers = { model->layer_embedding,
					  model->n_layers * model->layer_input_dim,
					  sqrtf((float)model->layer_input_dim) };
	const struct pass pass = { weights->forward, lane, NULL, sequence };
	size_t n = find_distinct(workspace, sequence->tokens, sequence->n_tokens);

	if (read_rows(weights, &tokens, workspace->distinct, n, workspace->rows, err) ||
	    read_norm(workspace, weights, err) ||
	    forward_embed(&pass, workspace->rows, n, workspace->token_rows, workspace->norm, err) ||
	    run_ngrams(workspace, weights, &pass, err))
		return -1;
	if (!model->layer_embedding)
		return 0;
	if (read_rows(weights, &layers, workspace->distinct, n, workspace->layer_rows, err))
		return -1;
	return forward_embed_layers(&pass, workspace->layer_rows, n, err);
}
