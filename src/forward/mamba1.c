/* SPDX-License-Identifier: Apache-2.0
 *
 * Mamba-1 (arXiv 2312.00752) of one sequence, as Jamba has it: one matrix gives the values x and
 * the gates z; the convolution of x; a second matrix gives b, c, and what a third one turns into
 * steps, each with a norm; the scan; the gate; the output matrix.  Source: transformers 5.23,
 * modeling_jamba.py.
 */
#include "forward/pass.h"

_Static_assert(MODEL_MAX_CHANNEL_STATE <= SCAN_CHANNELS_MAX_STATE, "a state fits the executors");

static void convolve(const struct pass *pass)
{
	const struct mamba1 *mamba = &pass->forward->model->mamba1;
	struct workspace *w = pass->workspace;
	size_t n = mamba->n_channels;
	const struct convolve_args args = { .activation = ACT_SILU,
					    .x = { w->mamba1.projected, 2 * n },
					    .weight = { pass->layer->vector[VECTOR_CONV], n },
					    .bias = pass->layer->vector[VECTOR_CONV_BIAS],
					    .width = mamba->conv_width,
					    .n_tokens = pass->sequence->n_tokens,
					    .n_cols = n,
					    .y = { w->mamba1.x, n } };

	w->ops->convolve(w->stream, &args);
}

/* Norms the three parts of selected; the first one moves to step_input. */
static void norm_parts(const struct pass *pass)
{
	const struct mamba1 *mamba = &pass->forward->model->mamba1;
	float *const *vector = pass->layer->vector;
	struct mamba1_arrays *m = &pass->workspace->mamba1;
	size_t rank = mamba->step_rank, size = mamba->state_size, stride = rank + 2 * size;
	size_t n = pass->sequence->n_tokens;
	float *b = m->selected + rank, *c = b + size;

	pass_norm(pass, (struct rows_in){ m->selected, stride }, vector[VECTOR_NORM_STEP],
		  (struct rows_out){ m->step_input, rank }, n, rank);
	pass_norm(pass, (struct rows_in){ b, stride }, vector[VECTOR_NORM_B],
		  (struct rows_out){ b, stride }, n, size);
	pass_norm(pass, (struct rows_in){ c, stride }, vector[VECTOR_NORM_C],
		  (struct rows_out){ c, stride }, n, size);
}

static void scan(const struct pass *pass)
{
	const struct mamba1 *mamba = &pass->forward->model->mamba1;
	struct workspace *w = pass->workspace;
	const struct mamba1_arrays *m = &w->mamba1;
	size_t n = mamba->n_channels, stride = mamba->step_rank + 2 * mamba->state_size;
	const float *b = m->selected + mamba->step_rank;
	const struct scan_channels_args args = { .n_tokens = pass->sequence->n_tokens,
						 .n_channels = n,
						 .state_size = mamba->state_size,
						 .x = { m->x, n },
						 .steps = { m->steps, n },
						 .b = { b, stride },
						 .c = { b + mamba->state_size, stride },
						 .a_log = pass->layer->vector[VECTOR_A_LOG],
						 .skip = pass->layer->vector[VECTOR_SKIP],
						 .y = { m->scanned, n } };

	w->ops->scan_channels(w->stream, &args);
}

/* scanned *= silu(z). */
static void gate(const struct pass *pass)
{
	struct workspace *w = pass->workspace;
	const struct mamba1_arrays *m = &w->mamba1;
	size_t n = pass->forward->model->mamba1.n_channels;
	const struct gate_args args = { .activation = ACT_SILU,
					.gate = { m->projected + n, 2 * n },
					.up = { m->scanned, n },
					.n_rows = pass->sequence->n_tokens,
					.n_cols = n,
					.y = { m->scanned, n } };

	w->ops->gate(w->stream, &args);
}

void mamba1_run(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;
	struct workspace *w = pass->workspace;
	struct mamba1_arrays *m = &w->mamba1;
	size_t n = pass->sequence->n_tokens;

	pass_linear(pass, &l[LINEAR_MAMBA_IN], w->own->normed, n, m->projected);
	convolve(pass);
	pass_linear(pass, &l[LINEAR_MAMBA_X], m->x, n, m->selected);
	norm_parts(pass);
	pass_linear(pass, &l[LINEAR_MAMBA_STEP], m->step_input, n, m->steps);
	scan(pass);
	gate(pass);
	pass_linear(pass, &l[LINEAR_MAMBA_OUT], m->scanned, n, w->own->out);
}
