/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a pass: the final norm, the logits and their cross-entropy.
 */
#include "forward/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { SLOT_X, SLOT_Y }; /* of the input and of the logits */

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
	double max = a > b ? a : b;

	return max + log(exp(a - max) + exp(b - max));
}

void head_norm(const struct head_pass *run, size_t first, size_t m)
{
	const struct pass *pass = &run->pass;
	size_t hidden = pass->forward->model->hidden, at = first * hidden;

	pass_norm(pass, (struct rows_in){ pass->sequence->residual + at, hidden }, run->head.norm,
		  (struct rows_out){ pass->workspace->own->normed + at, hidden }, m, hidden);
}

void head_begin(const struct head_pass *run)
{
	head_norm(run, 0, run->pass.sequence->n_tokens);
}

size_t head_block_tokens(const struct head_pass *run, size_t first)
{
	size_t left = run->pass.sequence->n_tokens - first;

	return left < HEAD_BLOCK ? left : HEAD_BLOCK;
}

/* Sets the labels.  The label of a token is the next token; the last token of a sequence gets 0,
 * which is not read. */
static void labels_put(const struct pass *pass, const struct head_block *block)
{
	struct workspace *w = pass->workspace;
	uint32_t *labels = w->host.labels;

	memset(labels, 0, block->m * sizeof *labels);
	memcpy(labels, pass->sequence->tokens + block->first + 1, block->n_labels * sizeof *labels);
	w->ops->put(w->stream, w->head.labels, labels, block->m * sizeof *labels);
}

void head_block_begin(const struct head_pass *run, size_t first, struct head_block *block)
{
	const struct pass *pass = &run->pass;
	size_t hidden = pass->forward->model->hidden, n = pass->sequence->n_tokens;
	struct workspace *w = pass->workspace;
	struct observation x;

	*block = (struct head_block){ .first = first, .m = head_block_tokens(run, first) };
	block->n_labels = first + block->m < n ? block->m : block->m - 1;
	w->own->n_slots_used = SLOT_X;
	w->own->ready = (struct ready_input){ 0 };
	x = pass_round(pass, w->own->normed + first * hidden, block->m, hidden, false);
	x.linear = run->head.linear->ref;
	block->input = pass_input(pass, run->head.linear, &x);
	labels_put(pass, block);
}

bool head_panel_next(const struct head_pass *run, struct head_panel *panel)
{
	const struct executor_weight *weight = &run->head.linear->weight;

	if (panel->n)
		panel->index++;
	if (panel->index == executor_weight_panels(weight))
		return false;
	panel->col += panel->n;
	panel->n = executor_weight_panel_rows(weight, panel->index);
	return true;
}

void head_panel_run(const struct head_pass *run, const struct head_block *block,
		    const struct head_panel *panel)
{
	const struct pass *pass = &run->pass;
	const struct linear *head = run->head.linear;
	struct workspace *w = pass->workspace;
	const struct cross_entropy_args args = {
		.logits = w->scores,
		.n_rows = block->m,
		.n_cols = panel->n,
		.first = panel->col,
		.softcap = pass->forward->model->logit_softcap,
		.labels = w->head.labels,
		.log_sums = w->head.log_sums + panel->index * block->m,
		.label_logits = w->head.label_logits,
	};
	const struct multiply_args product = { .weight = &head->weight,
					       .x = block->input,
					       .m = block->m,
					       .y = w->scores,
					       .panel = &panel->index };
	const struct observation y = { .linear = head->ref,
				       .worker = w->number,
				       .stream = w->stream,
				       .sequence = pass->sequence->index,
				       .n_rows = block->m,
				       .n_cols = panel->n,
				       .slot = SLOT_Y };

	w->ops->multiply(w->stream, &product);
	pass_output(pass, head, w->scores, panel->col, y);
	pass_scale(pass, w->scores, pass->forward->model->multipliers.logits, block->m, panel->n);
	w->ops->cross_entropy(w->stream, &args);
}

int head_block_losses(const struct head_pass *run, const struct head_block *block, struct err *err)
{
	size_t n_panels = executor_weight_panels(&run->head.linear->weight), m = block->m;
	struct workspace *w = run->pass.workspace;
	struct host_arrays *host = &w->host;

	w->ops->fetch(w->stream, host->log_sums, w->head.log_sums, n_panels * m * sizeof(float));
	w->ops->fetch(w->stream, host->label_logits, w->head.label_logits, m * sizeof(float));
	if (w->ops->wait(w->stream, err))
		return -1;
	for (size_t i = 0; i < block->n_labels; i++) {
		double sum = -INFINITY;

		for (size_t p = 0; p < n_panels; p++)
			sum = log_add(sum, (double)host->log_sums[p * m + i]);
		run->losses[block->first + i] = sum - (double)host->label_logits[i];
	}
	return 0;
}

int head_failed(const struct head_pass *run, struct err *err)
{
	return err_wrap(err, "'%s', sequence %zu", run->head.linear->ref->module,
			run->pass.sequence->index);
}

/* Copies a panel of logits to its columns of `logits` (n_tokens, vocab_size). */
static int logits_fetch(const struct head_pass *run, const struct head_block *block,
			const struct head_panel *panel, float *logits, struct err *err)
{
	size_t size = block->m * panel->n * sizeof(float), vocab_size = run->head.linear->ref->n;
	float *values, *to = logits + block->first * vocab_size + panel->col;
	struct workspace *w = run->pass.workspace;

	if (buffer_alloc((void **)&values, size, "some logits", err))
		return -1;
	w->ops->fetch(w->stream, values, w->scores, size);
	if (w->ops->wait(w->stream, err)) {
		free(values);
		return -1;
	}
	for (size_t i = 0; i < block->m; i++)
		memcpy(to + i * vocab_size, values + i * panel->n, panel->n * sizeof *to);
	free(values);
	return 0;
}

static int block_run(const struct head_pass *run, size_t first, float *logits, struct err *err)
{
	struct head_panel panel = { 0 };
	struct head_block block;

	head_block_begin(run, first, &block);
	while (head_panel_next(run, &panel)) {
		head_panel_run(run, &block, &panel);
		if (logits && logits_fetch(run, &block, &panel, logits, err))
			return -1;
	}
	return head_block_losses(run, &block, err);
}

int forward_head(const struct head_pass *run, float *logits, struct err *err)
{
	size_t n = run->pass.sequence->n_tokens;

	head_begin(run);
	for (size_t first = 0; first < n; first += head_block_tokens(run, first))
		if (block_run(run, first, logits, err))
			return head_failed(run, err);
	return 0;
}
