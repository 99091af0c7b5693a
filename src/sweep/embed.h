/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a pass: the rows of the embedding that a sequence needs are read once each, and
 * gathered by the executor.
 */
#ifndef FP8CONV_SWEEP_EMBED_H
#define FP8CONV_SWEEP_EMBED_H

#include "sweep/weights.h"

/* What one thread works with, in the memory of the host.  Zeroed is an empty one. */
struct embed_workspace {
	/* (max_tokens): the tokens of a sequence in ascending order, each once, */
	uint32_t *distinct;
	float *rows; /* (max_tokens, hidden): and theirs */
	/* (max_tokens): where the row of each token of the sequence is among them */
	uint32_t *token_rows;
};

uint64_t embed_size(const struct model *model, size_t max_tokens); /* bytes */
int embed_init(struct embed_workspace *workspace, const struct model *model, size_t max_tokens,
	       struct err *err);
void embed_release(struct embed_workspace *workspace);

/* sequence->residual = the scaled embeddings of its tokens. */
int embed_run(struct embed_workspace *workspace, struct weights *weights, struct workspace *lane,
	      const struct sequence *sequence, struct err *err);

#endif
