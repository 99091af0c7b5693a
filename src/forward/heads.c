/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the passes of two models over one sequence: their losses, and how far their
 * distributions are from each other, from the logits of one panel of both at a time.  The same for
 * several models beside one, without their losses.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

enum { SLOT_X, SLOT_Y }; /* of the input and of the logits */

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
	double max = a > b ? a : b;

	return max + log(exp(a - max) + exp(b - max));
}

static void head_norm(const struct head_pass *run, size_t first, size_t m)
{
	const struct pass *pass = &run->pass;
	float *y = pass->workspace->own->normed + first * pass->forward->model->hidden;
	const float *x = streams_last(run, first, m, y);
	struct rms_norm_args args = pass_norm_args(pass, x, run->head.last[LAST_NORM], y);

	args.n_rows = m;
	args.offset = pass->forward->model->last_norm_offset;
	if (args.weight)
		pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
	pass_scale(pass, y, pass->forward->model->multipliers.head_in, m, args.n_cols);
}

/* Computes the final norm of all tokens; of tokens [first, first + m). */
static void head_begin(const struct head_pass *run)
{
	head_norm(run, 0, run->pass.sequence->n_tokens);
}

/* Returns the number of tokens of a block from `first` on. */
static size_t head_block_tokens(const struct head_pass *run, size_t first)
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

/* Prepares the input and the labels of a block from `first` on. */
static void head_block_begin(const struct head_pass *run, size_t first, struct head_block *block)
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

/* Moves to the first panel, if panel->n is 0, or the next one.  Returns false after the last. */
static bool head_panel_next(const struct head_pass *run, struct head_panel *panel)
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

/* Computes the logits of a panel, capped, in workspace->scores (m, n), and their terms of the
 * cross-entropy. */
static void head_panel_run(const struct head_pass *run, const struct head_block *block,
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

/* Writes run->losses of the tokens of the block that have a next one.  After all panels. */
static int head_block_losses(const struct head_pass *run, const struct head_block *block,
			     struct err *err)
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

/* Names the head and the sequence in the message of a failed step.  Returns -1. */
static int head_failed(const struct head_pass *run, struct err *err)
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

static int block_losses(const struct head_pass *run, size_t first, float *logits, struct err *err)
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
		if (block_losses(run, first, logits, err))
			return head_failed(run, err);
	return 0;
}

/* Adds the sums of later columns; the sums of p and of q each have a scale. */
static void sums_add(struct divergence_sums *to, const struct divergence_sums *from)
{
	double max_p = fmax((double)to->max_p, (double)from->max_p);
	double max_q = fmax((double)to->max_q, (double)from->max_q);
	double old_p = exp((double)to->max_p - max_p), new_p = exp((double)from->max_p - max_p);
	double old_q = exp((double)to->max_q - max_q), new_q = exp((double)from->max_q - max_q);

	to->sum_p = old_p * to->sum_p + new_p * from->sum_p;
	to->cross_p = old_p * to->cross_p + new_p * from->cross_p;
	to->sum_q = old_q * to->sum_q + new_q * from->sum_q;
	to->cross_q = old_q * to->cross_q + new_q * from->cross_q;
	to->top_p = from->max_p > to->max_p ? from->top_p : to->top_p;
	to->top_q = from->max_q > to->max_q ? from->top_q : to->top_q;
	to->max_p = (float)max_p;
	to->max_q = (float)max_q;
}

/* sum p ln(p / q) = sum p (logit p - logit q) - (ln sum exp(logit p) - ln sum exp(logit q)). */
static void divergence_of(const struct divergence_sums *sums, struct divergence *divergence)
{
	double log_p = (double)sums->max_p + log(sums->sum_p);
	double log_q = (double)sums->max_q + log(sums->sum_q);

	divergence->kl = sums->cross_p / sums->sum_p - (log_p - log_q);
	divergence->reverse_kl = sums->cross_q / sums->sum_q - (log_q - log_p);
	divergence->same_top = sums->top_p == sums->top_q;
}

/* Adds a panel of both models to the totals (m) of the block. */
static int panel_add(const struct head_pass *p, const struct head_pass *q,
		     const struct head_panel *panel, size_t m, struct divergence_sums *totals,
		     struct err *err)
{
	struct workspace *w = q->pass.workspace, *of_p = p->pass.workspace;
	struct divergence_sums *sums = w->host.sums;
	const struct divergence_args args = { .p = of_p->scores,
					      .q = w->scores,
					      .n_rows = m,
					      .n_cols = panel->n,
					      .first = panel->col,
					      .sums = w->head.sums };

	if (of_p->ops->wait(of_p->stream, err))
		return -1;
	w->ops->divergence(w->stream, &args);
	w->ops->fetch(w->stream, sums, w->head.sums, m * sizeof *sums);
	if (w->ops->wait(w->stream, err))
		return -1;
	for (size_t i = 0; i < m; i++) {
		if (panel->index == 0)
			totals[i] = sums[i];
		else
			sums_add(&totals[i], &sums[i]);
	}
	return 0;
}

static int block_run(const struct head_pass *p, const struct head_pass *q, size_t first,
		     struct divergence *divergences, struct err *err)
{
	struct head_block of_p, of_q;
	struct head_panel panel = { 0 };

	head_block_begin(p, first, &of_p);
	head_block_begin(q, first, &of_q);
	while (head_panel_next(q, &panel)) {
		head_panel_run(p, &of_p, &panel);
		head_panel_run(q, &of_q, &panel);
		if (panel_add(p, q, &panel, of_q.m, q->pass.workspace->host.totals, err))
			return -1;
	}
	for (size_t i = 0; i < of_q.m; i++)
		divergence_of(&q->pass.workspace->host.totals[i], &divergences[first + i]);
	if (head_block_losses(p, &of_p, err))
		return -1;
	return head_block_losses(q, &of_q, err);
}

int forward_heads(const struct head_pass *p, const struct head_pass *q,
		  struct divergence *divergences, struct err *err)
{
	size_t n = q->pass.sequence->n_tokens;

	head_begin(p);
	head_begin(q);
	for (size_t first = 0; first < n; first += head_block_tokens(q, first))
		if (block_run(p, q, first, divergences, err))
			return head_failed(q, err);
	return 0;
}

/* The heads of several models beside that of one. */
struct many {
	const struct head_pass *p, *q;
	size_t n;
	struct divergence_sums *totals; /* (n, HEAD_BLOCK) */
	double *kl;			/* (n) */
	_Atomic uint64_t *done;
};

/* Computes a panel of every q beside that of p, which is there.  The models q share a workspace, so
 * each norms its tokens again: a small part of a panel's product. */
static int many_panel(const struct many *many, size_t first, const struct head_panel *panel,
		      struct err *err)
{
	for (size_t i = 0; i < many->n; i++) {
		const struct head_pass *q = &many->q[i];
		struct head_block block;

		head_norm(q, first, head_block_tokens(q, first));
		head_block_begin(q, first, &block);
		head_panel_run(q, &block, panel);
		if (panel_add(many->p, q, panel, block.m, many->totals + i * HEAD_BLOCK, err))
			return -1;
	}
	return 0;
}

/* Counts the share of a panel in the heads of m tokens. */
static void many_count(const struct many *many, const struct head_panel *panel, size_t m)
{
	if (many->done)
		atomic_fetch_add(many->done, many->n * m * panel->n);
}

static int many_block(const struct many *many, size_t first, struct err *err)
{
	struct head_panel panel = { 0 };
	struct head_block block;

	head_block_begin(many->p, first, &block);
	while (head_panel_next(many->p, &panel)) {
		head_panel_run(many->p, &block, &panel);
		if (many_panel(many, first, &panel, err))
			return -1;
		many_count(many, &panel, block.m);
	}
	for (size_t i = 0; i < many->n; i++) {
		for (size_t t = 0; t < block.m; t++) {
			struct divergence divergence;

			divergence_of(&many->totals[i * HEAD_BLOCK + t], &divergence);
			many->kl[i] += divergence.kl;
		}
	}
	return 0;
}

uint64_t forward_heads_size(size_t n)
{
	return (uint64_t)n * HEAD_BLOCK * sizeof(struct divergence_sums);
}

int forward_heads_many(const struct head_pass *p, const struct head_pass *q, size_t n, double *kl,
		       _Atomic uint64_t *done, struct err *err)
{
	struct many many = { .p = p, .q = q, .n = n, .kl = kl, .done = done };
	size_t n_tokens = p->pass.sequence->n_tokens;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		kl[i] = 0;
	if (buffer_alloc((void **)&many.totals, forward_heads_size(n),
			 "the divergences of several models", err))
		return -1;
	head_begin(p);
	for (size_t first = 0; first < n_tokens && !rc; first += head_block_tokens(p, first))
		rc = many_block(&many, first, err);
	free(many.totals);
	return rc ? head_failed(p, err) : 0;
}
