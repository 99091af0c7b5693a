/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/embed.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

uint64_t embedder_size(const struct model *model, size_t max_tokens)
{
	return max_tokens * (model->hidden * sizeof(float) + 2 * sizeof(uint32_t));
}

int embedder_init(struct embedder *embedder, const struct model *model, size_t max_tokens,
		  struct err *err)
{
	static const char what[] = "the embedding of a sequence";

	return buffer_alloc((void **)&embedder->distinct, max_tokens * sizeof(uint32_t), what,
			    err) ||
			       buffer_alloc((void **)&embedder->places,
					    max_tokens * sizeof(uint32_t), what, err) ||
			       buffer_alloc((void **)&embedder->rows,
					    max_tokens * model->hidden * sizeof(float), what, err)
		       ? -1
		       : 0;
}

void embedder_release(struct embedder *embedder)
{
	free(embedder->distinct);
	free(embedder->places);
	free(embedder->rows);
	*embedder = (struct embedder){ 0 };
}

static int by_token(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Returns how many distinct ones there are. */
static size_t find_distinct(struct embedder *embedder, const uint32_t *tokens, size_t n_tokens)
{
	uint32_t *distinct = embedder->distinct;
	size_t n = 0;

	memcpy(distinct, tokens, n_tokens * sizeof *tokens);
	sort(distinct, n_tokens, sizeof *distinct, by_token);
	for (size_t i = 0; i < n_tokens; i++)
		if (n == 0 || distinct[n - 1] != distinct[i])
			distinct[n++] = distinct[i];
	for (size_t t = 0; t < n_tokens; t++) {
		const uint32_t *found =
			bsearch(&tokens[t], distinct, n, sizeof *distinct, by_token);

		embedder->places[t] = (uint32_t)(found - distinct);
	}
	return n;
}

int embedder_run(struct embedder *embedder, struct weights *weights, struct forward_lane *lane,
		 const struct sequence *sequence, struct err *err)
{
	size_t n = find_distinct(embedder, sequence->tokens, sequence->n_tokens);

	return weights_read_embeddings(weights, embedder->distinct, n, embedder->rows, err) ||
			       forward_embed(weights->forward, lane, embedder->rows, n,
					     embedder->places, sequence, err)
		       ? -1
		       : 0;
}
