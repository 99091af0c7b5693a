/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a pass: reads the rows of the embeddings that a sequence needs, once each, and
 * the executor gathers them.
 *
 * Order: embed_init() for each thread; embed_run() for each sequence; embed_release().
 */
#ifndef FP8CONV_SWEEP_EMBED_H
#define FP8CONV_SWEEP_EMBED_H

#include "sweep/weights.h"

/* The memory of one thread, on the host.  A zeroed struct is empty. */
struct embed_workspace {
	/* (max_tokens): the distinct tokens of a sequence in ascending order */
	uint32_t *distinct;
	float *rows; /* (max_tokens, hidden): the embeddings of these tokens */
	/* (max_tokens, layers * layer_input_dim): those for each layer; NULL: the model has none */
	float *layer_rows;
	float *norm;   /* (hidden): the weight of the norm of embeddings; NULL: not read */
	float *ngrams; /* (max_tokens, ngrams.dim): an n-gram embedding; NULL: the model has none */
	/* (max_tokens): for each token of the sequence, its index in distinct */
	uint32_t *token_rows;
};

/* Returns the bytes of a workspace for sequences of up to max_tokens tokens. */
uint64_t embed_size(const struct model *model, size_t max_tokens);

/* Allocates the workspace.  ERR_SYSTEM without memory. */
int embed_init(struct embed_workspace *workspace, const struct model *model, size_t max_tokens,
	       struct err *err);
void embed_release(struct embed_workspace *workspace);

/* Sets sequence->residual (n_tokens, hidden), and the inputs of layers behind it, to the scaled
 * embeddings of its tokens.  ERR_INPUT where the checkpoint cannot be read. */
int embed_run(struct embed_workspace *workspace, struct weights *weights, struct workspace *lane,
	      const struct sequence *sequence, struct err *err);

#endif
