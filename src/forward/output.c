/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of attention: times the sigmoid or the softplus of a gate, which is of heads or of
 * values and whose matrix takes what that of queries takes; then through one matrix, or through one
 * whose rows belong to groups of heads and another that joins what the groups give (DeepSeek-V4).
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

static void run_gates(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;

	if (pass->forward->model->arch->gated_attention)
		gate_heads(pass);
	if (l[LINEAR_HEAD_GATE].weight.data)
		gate_whole_heads(pass);
	if (l[LINEAR_VALUE_GATE].weight.data)
		gate_values(pass);
}

/* own->out = x times the last matrix. */
static void project(const struct pass *pass, enum linear_role role, float *x)
{
	const struct linear *linear = &pass->layer->linear[role];
	struct workspace *w = pass->workspace;
	const struct products products = { .linears = &linear,
					   .n = 1,
					   .x = x,
					   .m = pass->sequence->n_tokens,
					   .ys = &w->own->out,
					   .x_ends = true,
					   .y_stats = &w->own->out_stats };

	pass_products(pass, &products);
}

/* Puts the heads of each group together: attn_out (tokens, groups, k) becomes (groups, tokens, k),
 * where queries were.  Returns it. */
static float *sort_groups(const struct pass *pass, size_t n_groups, size_t k)
{
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;
	struct copy_args copy = { .y = { w->attention.q, k },
				  .x = { w->attention.attn_out, n_groups * k },
				  .repeat = 1,
				  .n_rows = n,
				  .n_cols = k };

	for (size_t g = 0; g < n_groups; g++) {
		w->ops->copy(w->stream, &copy);
		copy.y.data += n * k;
		copy.x.data += k;
	}
	return w->attention.q;
}

/* Multiplies the heads of each group by its rows: (tokens, rows of all groups). */
static void project_groups(const struct pass *pass, const struct linear *linear)
{
	size_t n = pass->sequence->n_tokens, n_groups = linear->ref->n_parts;
	struct workspace *w = pass->workspace;
	float *x = sort_groups(pass, n_groups, linear->ref->k);
	struct observation observation = pass_round(pass, x, n_groups * n, linear->ref->k, true);

	observation.linear = linear->ref;
	pass_multiply(pass, linear, pass_input(pass, linear, &observation), n, w->attention.joined);
	observation.n_rows = n;
	observation.n_cols = linear->ref->n;
	observation.slot = w->own->n_slots_used++;
	pass_output(pass, linear, w->attention.joined, 0, observation);
	w->ready = (struct ready_input){ 0 };
}

void output_run(const struct pass *pass)
{
	const struct linear *linear = &pass->layer->linear[LINEAR_O];

	run_gates(pass);
	if (!pass->layer->linear[LINEAR_O_JOIN].weight.data) {
		project(pass, LINEAR_O, pass->workspace->attention.attn_out);
		return;
	}
	project_groups(pass, linear);
	project(pass, LINEAR_O_JOIN, pass->workspace->attention.joined);
}
