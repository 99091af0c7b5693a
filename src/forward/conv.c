/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated short convolution of LFM2: one matrix gives the gates b and c and the values x; the
 * output matrix takes c conv(b x).  Source: transformers 5.23, modeling_lfm2.py.
 */
#include "forward/pass.h"

/* y = gate x, value by value, for rows of 3 hidden values. */
static void gate(const struct pass *pass, const float *gate, const float *x, struct rows_out y)
{
	struct workspace *w = pass->workspace;
	size_t hidden = pass->forward->model->hidden;
	const struct gate_args args = { .activation = ACT_NONE,
					.gate = { gate, 3 * hidden },
					.up = { x, 3 * hidden },
					.n_rows = pass->sequence->n_tokens,
					.n_cols = hidden,
					.y = y };

	w->ops->gate(w->stream, &args);
}

void conv_run(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens, hidden = pass->forward->model->hidden;
	float *b = w->fused_out, *c = b + hidden, *x = c + hidden;
	const struct convolve_args args = {
		.activation = ACT_NONE,
		.x = { x, 3 * hidden },
		.weight = { pass->layer->vector[VECTOR_CONV], hidden },
		.bias = pass->layer->vector[VECTOR_CONV_BIAS],
		.width = pass->forward->model->conv_width,
		.n_tokens = n,
		.n_cols = hidden,
		.y = { b, 3 * hidden }, /* which the first gate has read */
	};

	pass_linear(pass, &l[LINEAR_CONV_IN], w->own->normed, n, w->fused_out);
	gate(pass, b, x, (struct rows_out){ x, 3 * hidden });
	w->ops->convolve(w->stream, &args);
	gate(pass, c, b, (struct rows_out){ w->own->normed, hidden });
	pass_linear(pass, &l[LINEAR_CONV_OUT], w->own->normed, n, w->own->out);
}
