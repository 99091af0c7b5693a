/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a pass: the final norm, the logits of HEAD_BLOCK tokens and one panel of the head at a
 * time, and their cross-entropy.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "forward/pass.h"

enum { SLOT_X, SLOT_Y }; /* of the input and of the logits */

/* Tokens [first, first + m) of a sequence, m <= HEAD_BLOCK. */
struct block {
	const struct linear *head;
	size_t first, m;
	size_t n_labels; /* m, or m - 1 if it has the last token of the sequence */
	float *logits;	 /* (n_tokens, vocab_size) of the host; or NULL */
};

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
	double max = a > b ? a : b;

	return max + log(exp(a - max) + exp(b - max));
}

/* Sets the labels.  The label of a token is the next token; the last token of a sequence gets 0,
 * which is not read. */
static void labels_put(const struct pass *pass, const struct block *block)
{
	struct workspace *w = pass->workspace;
	uint32_t *labels = w->host.labels;

	memset(labels, 0, block->m * sizeof *labels);
	memcpy(labels, pass->sequence->tokens + block->first + 1, block->n_labels * sizeof *labels);
	w->ops->put(w->stream, w->head.labels, labels, block->m * sizeof *labels);
}

/* Copies workspace->scores to columns [col, col + n) of block->logits. */
static int logits_fetch(struct workspace *w, const struct block *block, size_t col, size_t n,
			struct err *err)
{
	size_t size = block->m * n * sizeof(float), vocab_size = block->head->ref->n;
	float *panel, *to = block->logits + block->first * vocab_size + col;

	if (buffer_alloc((void **)&panel, size, "some logits", err))
		return -1;
	w->ops->fetch(w->stream, panel, w->scores, size);
	if (w->ops->wait(w->stream, err)) {
		free(panel);
		return -1;
	}
	for (size_t i = 0; i < block->m; i++)
		memcpy(to + i * vocab_size, panel + i * n, n * sizeof *to);
	free(panel);
	return 0;
}

/* Adds log sum exp(logits) - logit of the label to *nll, for every token that has a label. */
static int add_nll(struct workspace *w, const struct block *block, double *nll, struct err *err)
{
	size_t n_panels = executor_weight_panels(&block->head->weight), m = block->m;
	struct host_arrays *host = &w->host;

	w->ops->fetch(w->stream, host->log_sums, w->head.log_sums, n_panels * m * sizeof(float));
	w->ops->fetch(w->stream, host->label_logits, w->head.label_logits, m * sizeof(float));
	if (w->ops->wait(w->stream, err))
		return -1;
	for (size_t i = 0; i < block->n_labels; i++) {
		double sum = -INFINITY;

		for (size_t p = 0; p < n_panels; p++)
			sum = log_add(sum, (double)host->log_sums[p * m + i]);
		*nll += sum - (double)host->label_logits[i];
	}
	return 0;
}

/* Multiplies a panel of the head, columns from `col` on, and computes its terms of the
 * cross-entropy. */
static int panel_run(const struct pass *pass, const struct block *block, size_t panel, size_t col,
		     const void *input, struct err *err)
{
	const struct executor_weight *weight = &block->head->weight;
	struct workspace *w = pass->workspace;
	size_t n = executor_weight_panel_rows(weight, panel);
	const struct cross_entropy_args args = { .logits = w->scores,
						 .n_rows = block->m,
						 .n_cols = n,
						 .first = col,
						 .softcap = pass->forward->model->logit_softcap,
						 .labels = w->head.labels,
						 .log_sums = w->head.log_sums + panel * block->m,
						 .label_logits = w->head.label_logits };
	const struct observation y = { .linear = block->head->ref,
				       .worker = w->number,
				       .stream = w->stream,
				       .sequence = pass->sequence->index,
				       .n_rows = block->m,
				       .n_cols = n,
				       .slot = SLOT_Y };

	w->ops->multiply_panel(w->stream, weight, panel, input, block->m, w->scores);
	pass_output(pass, block->head, w->scores, col, y);
	w->ops->cross_entropy(w->stream, &args);
	return block->logits ? logits_fetch(w, block, col, n, err) : 0;
}

static int block_run(const struct pass *pass, const struct block *block, double *nll,
		     struct err *err)
{
	const struct executor_weight *weight = &block->head->weight;
	size_t hidden = pass->forward->model->hidden, col = 0;
	struct workspace *w = pass->workspace;
	struct observation x;
	const void *input;

	w->n_slots_used = SLOT_X;
	x = pass_round(pass, w->normed + block->first * hidden, block->m, hidden);
	x.linear = block->head->ref;
	if (pass_input(pass, block->head, &x, &input, err))
		return -1;
	labels_put(pass, block);
	for (size_t panel = 0; panel < executor_weight_panels(weight); panel++) {
		if (panel_run(pass, block, panel, col, input, err))
			return -1;
		col += executor_weight_panel_rows(weight, panel);
	}
	return add_nll(w, block, nll, err);
}

int forward_head(const struct pass *pass, const struct head *head, double *nll, float *logits,
		 struct err *err)
{
	const struct sequence *sequence = pass->sequence;
	size_t n = sequence->n_tokens;

	*nll = 0;
	pass_norm_tokens(pass, sequence->residual, head->norm, pass->workspace->normed);
	for (size_t first = 0; first < n; first += HEAD_BLOCK) {
		size_t m = n - first < HEAD_BLOCK ? n - first : HEAD_BLOCK;
		const struct block block = { .head = head->linear,
					     .first = first,
					     .m = m,
					     .logits = logits,
					     .n_labels = first + m < n ? m : m - 1 };

		if (block_run(pass, &block, nll, err))
			return err_wrap(err, "'%s', sequence %zu", head->linear->ref->module,
					sequence->index);
	}
	return 0;
}
