/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the passes of two models over one sequence: their losses, and how far their
 * distributions are from each other, from the logits of one panel of both at a time.
 */
#include <math.h>

#include "forward/head.h"

/* Adds the sums of later columns; those of p and those of q have a scale of their own. */
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
		     const struct head_panel *panel, size_t m, struct err *err)
{
	struct workspace *w = q->pass.workspace, *of_p = p->pass.workspace;
	struct divergence_sums *totals = w->host.totals, *sums = w->host.sums;
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

	if (head_block_begin(p, first, &of_p, err) || head_block_begin(q, first, &of_q, err))
		return -1;
	while (head_panel_next(q, &panel)) {
		head_panel_run(p, &of_p, &panel);
		head_panel_run(q, &of_q, &panel);
		if (panel_add(p, q, &panel, of_q.m, err))
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
