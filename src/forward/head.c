/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a pass: the final norm, logits a few tokens and columns at a time, and what is lost by
 * them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "forward/pass.h"

enum { SLOT_X, SLOT_Y }; /* of what is seen at the head */

/* Tokens [first, first + m) of a sequence, m <= HEAD_BLOCK. */
struct block {
	const struct linear *head;
	const struct sequence *sequence;
	size_t first, m;
	size_t n_labels; /* none of the last token of a sequence */
	float *logits;	 /* of all tokens, the host's; or NULL */
};

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
	double most = a > b ? a : b;

	return most + log(exp(a - most) + exp(b - most));
}

/* Each token is followed by its label; the last one by any. */
static void labels_put(struct workspace *lane, const struct block *block)
{
	memset(lane->host_labels, 0, block->m * sizeof *lane->host_labels);
	memcpy(lane->host_labels, block->sequence->tokens + block->first + 1,
	       block->n_labels * sizeof *lane->host_labels);
	lane->ops->put(lane->executor, lane->labels, lane->host_labels,
		       block->m * sizeof *lane->labels);
}

/* Columns [col, col + n) of the logits, out of lane->scores. */
static int logits_out(struct workspace *lane, const struct block *block, size_t col, size_t n,
		      struct err *err)
{
	size_t size = block->m * n * sizeof(float), vocab_size = block->head->ref->n;
	float *part, *to = block->logits + block->first * vocab_size + col;

	if (buffer_alloc((void **)&part, size, "some logits", err))
		return -1;
	lane->ops->fetch(lane->executor, part, lane->scores, size);
	if (lane->ops->wait(lane->executor, err)) {
		free(part);
		return -1;
	}
	for (size_t i = 0; i < block->m; i++)
		memcpy(to + i * vocab_size, part + i * n, n * sizeof *to);
	free(part);
	return 0;
}

/* *nll += what is lost, out of the sums over each part of the columns and the labels' own
 * logits. */
static int losses(struct workspace *lane, const struct block *block, double *nll, struct err *err)
{
	size_t parts = executor_weight_panels(&block->head->weight), m = block->m;

	lane->ops->fetch(lane->executor, lane->host_log_sums, lane->log_sums,
			 parts * m * sizeof(float));
	lane->ops->fetch(lane->executor, lane->host_picked, lane->picked, m * sizeof(float));
	if (lane->ops->wait(lane->executor, err))
		return -1;
	for (size_t i = 0; i < block->n_labels; i++) {
		double sum = -INFINITY;

		for (size_t p = 0; p < parts; p++)
			sum = log_add(sum, (double)lane->host_log_sums[p * m + i]);
		*nll += sum - (double)lane->host_picked[i];
	}
	return 0;
}

static int block_run(const struct forward *forward, struct workspace *lane,
		     const struct block *block, double *nll, struct err *err)
{
	const struct executor_weight *weight = &block->head->weight;
	size_t hidden = forward->model->hidden, col = 0;
	struct observation x;
	const void *input;

	lane->n_slots_used = SLOT_X;
	x = linear_observation(forward, lane, NULL, block->sequence,
			       lane->normed + block->first * hidden, block->m, hidden);
	x.linear = block->head->ref;
	if (linear_input(forward, lane, block->head, &x, &input, err))
		return -1;
	labels_put(lane, block);
	for (size_t p = 0; p < executor_weight_panels(weight); p++) {
		size_t n = executor_weight_panel_rows(weight, p);
		const struct cross_entropy_args args = { .logits = lane->scores,
							 .n_rows = block->m,
							 .n_cols = n,
							 .first = col,
							 .softcap = forward->model->logit_softcap,
							 .labels = lane->labels,
							 .log_sums = lane->log_sums + p * block->m,
							 .label_logits = lane->picked };
		struct observation y = x;

		y.slot = SLOT_Y;
		lane->ops->multiply_panel(lane->executor, weight, p, input, block->m, lane->scores);
		linear_output(forward, lane, block->head, block->sequence, y, lane->scores, col, n);
		lane->ops->cross_entropy(lane->executor, &args);
		if (block->logits && logits_out(lane, block, col, n, err))
			return -1;
		col += n;
	}
	return losses(lane, block, nll, err);
}

int forward_head(const struct forward *forward, struct workspace *lane, const float *weight,
		 const struct linear *head, struct sequence *sequence, double *nll, float *logits,
		 struct err *err)
{
	size_t n = sequence->n_tokens;

	*nll = 0;
	forward_norm(forward, lane, sequence->residual, weight, n, lane->normed);
	for (size_t first = 0; first < n; first += HEAD_BLOCK) {
		size_t m = n - first < HEAD_BLOCK ? n - first : HEAD_BLOCK;
		const struct block block = { .head = head,
					     .sequence = sequence,
					     .first = first,
					     .m = m,
					     .logits = logits,
					     .n_labels = first + m < n ? m : m - 1 };

		if (block_run(forward, lane, &block, nll, err))
			return err_wrap(err, "'%s', sequence %zu", head->ref->module,
					sequence->index);
	}
	return 0;
}
