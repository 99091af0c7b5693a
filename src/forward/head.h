/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a head that forward_head() and forward_heads() share: HEAD_BLOCK tokens and one
 * panel of the head at a time.
 *
 * Order, for each block of tokens: head_block_begin(); head_panel_run() for every panel;
 * head_block_losses().
 */
#ifndef FP8CONV_FORWARD_HEAD_H
#define FP8CONV_FORWARD_HEAD_H

#include "forward/pass.h"

/* Tokens [first, first + m) of a sequence, m <= HEAD_BLOCK. */
struct head_block {
	size_t first, m;
	size_t n_labels;   /* m, or m - 1 if it has the last token of the sequence */
	const void *input; /* (m, hidden): what the head multiplies */
};

/* A panel of the head: the logits of columns [col, col + n). */
struct head_panel {
	size_t index, col, n;
};

/* Computes the final norm of all tokens; of tokens [first, first + m). */
void head_begin(const struct head_pass *run);
void head_norm(const struct head_pass *run, size_t first, size_t m);

/* Returns the number of tokens of a block from `first` on. */
size_t head_block_tokens(const struct head_pass *run, size_t first);

/* Prepares the input and the labels of a block from `first` on. */
void head_block_begin(const struct head_pass *run, size_t first, struct head_block *block);

/* Moves to the first panel, if panel->n is 0, or the next one.  Returns false after the last. */
bool head_panel_next(const struct head_pass *run, struct head_panel *panel);

/* Computes the logits of a panel, capped, in workspace->scores (m, n), and their terms of the
 * cross-entropy. */
void head_panel_run(const struct head_pass *run, const struct head_block *block,
		    const struct head_panel *panel);

/* Writes run->losses of the tokens of the block that have a next one.  After all panels. */
int head_block_losses(const struct head_pass *run, const struct head_block *block, struct err *err);

/* Names the head and the sequence in the message of a failed step.  Returns -1. */
int head_failed(const struct head_pass *run, struct err *err);

#endif
