/* SPDX-License-Identifier: Apache-2.0
 *
 * The gates of attention: its output times the sigmoid or the softplus of a gate, before the last
 * matrix.  Gates are of heads or of values, and their matrix takes what that of queries takes.
 */
#include "forward/pass.h"

/* Multiplies the output of each head by the sigmoid of its gate, which is behind its query in the
 * output of q_proj. */
static void gate_heads(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	size_t n = ref->head_dim;
	float *y = w->attention.attn_out;
	const struct gate_args args = { .activation = ACT_SIGMOID,
					.gate = { w->fused_out + n, 2 * n },
					.up = { y, n },
					.n_rows = pass->sequence->n_tokens * ref->n_heads,
					.n_cols = n,
					.y = { y, n } };

	w->ops->gate(w->stream, &args);
}

static enum activation activation_of(const struct pass *pass)
{
	return pass->forward->model->arch->softplus_gates ? ACT_SOFTPLUS : ACT_SIGMOID;
}

/* Multiplies the output of each head by its gate, one value. */
static void gate_whole_heads(const struct pass *pass)
{
	size_t dim = pass->layer->ref->value_dim, heads = pass->layer->ref->n_heads;
	struct workspace *w = pass->workspace;
	float *gates = w->attention.head_gates;
	const struct scale_args args = { .x = { w->attention.attn_out, dim },
					 .factors = gates,
					 .n_rows = pass->sequence->n_tokens * heads,
					 .n_cols = dim };

	pass_activate(pass, activation_of(pass), gates, args.n_rows);
	w->ops->scale(w->stream, &args);
}

/* Multiplies each value of the output by its gate. */
static void gate_values(const struct pass *pass)
{
	size_t n = pass->layer->linear[LINEAR_VALUE_GATE].ref->n;
	struct workspace *w = pass->workspace;
	float *y = w->attention.attn_out;
	const struct gate_args args = { .activation = activation_of(pass),
					.gate = { w->fused_out, n },
					.up = { y, n },
					.n_rows = pass->sequence->n_tokens,
					.n_cols = n,
					.y = { y, n } };

	w->ops->gate(w->stream, &args);
}

void gates_run(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;

	if (pass->forward->model->arch->gated_attention)
		gate_heads(pass);
	if (l[LINEAR_HEAD_GATE].weight.data)
		gate_whole_heads(pass);
	if (l[LINEAR_VALUE_GATE].weight.data)
		gate_values(pass);
}
