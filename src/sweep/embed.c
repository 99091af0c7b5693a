/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/embed.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

uint64_t embed_size(const struct model *model, size_t max_tokens)
{
	return max_tokens * (model->hidden * sizeof(float) + 2 * sizeof(uint32_t));
}

int embed_init(struct embed_workspace *workspace, const struct model *model, size_t max_tokens,
	       struct err *err)
{
	static const char what[] = "the embedding of a sequence";

	return buffer_alloc((void **)&workspace->distinct, max_tokens * sizeof(uint32_t), what,
			    err) ||
			       buffer_alloc((void **)&workspace->token_rows,
					    max_tokens * sizeof(uint32_t), what, err) ||
			       buffer_alloc((void **)&workspace->rows,
					    max_tokens * model->hidden * sizeof(float), what, err)
		       ? -1
		       : 0;
}

void embed_release(struct embed_workspace *workspace)
{
	free(workspace->distinct);
	free(workspace->token_rows);
	free(workspace->rows);
	*workspace = (struct embed_workspace){ 0 };
}

static int by_token(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

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

int embed_run(struct embed_workspace *workspace, struct weights *weights, struct workspace *lane,
	      const struct sequence *sequence, struct err *err)
{
	const struct pass pass = { weights->forward, lane, NULL, sequence };
	size_t n = find_distinct(workspace, sequence->tokens, sequence->n_tokens);

	if (weights_read_embeddings(weights, workspace->distinct, n, workspace->rows, err))
		return -1;
	return forward_embed(&pass, workspace->rows, n, workspace->token_rows, err);
}
