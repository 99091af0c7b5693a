/* SPDX-License-Identifier: Apache-2.0
 *
 * Mamba-2 (arXiv 2405.21060) of one sequence: one matrix gives the gate z, the values x with their
 * b and c, and the steps; the convolution of x, b and c; the scan; the gated norm; the output
 * matrix.  Below it: Mamba-1.
 */
#include "forward/pass.h"

_Static_assert(MODEL_MAX_STATE <= SCAN_MAX_STATE, "a state fits the executors");

/* The columns of the first matrix's output: z (inner), x (inner), b and c (groups * state_size
 * each), steps (heads). */
struct columns {
	size_t inner, group; /* widths of x and of b */
	size_t convolved;    /* of x, b and c together */
	size_t all;
};

static struct columns columns_of(const struct mamba *mamba)
{
	struct columns columns = { .inner = mamba->n_heads * mamba->head_dim,
				   .group = mamba->n_groups * mamba->state_size };

	columns.convolved = columns.inner + 2 * columns.group;
	columns.all = columns.inner + columns.convolved + mamba->n_heads;
	return columns;
}

/* Multiplies the columns of z, x, b, c and the steps by a factor each (Falcon-H1). */
static void scale_columns(const struct pass *pass, const struct columns *columns)
{
	const struct mamba *mamba = &pass->forward->model->mamba;
	const size_t widths[N_MAMBA_COLUMNS] = { columns->inner, columns->inner, columns->group,
						 columns->group, mamba->n_heads };
	const float *factors = pass->forward->model->multipliers.mamba_columns;
	struct workspace *w = pass->workspace;
	struct scale_args args = { .x = { w->mamba.projected, columns->all },
				   .n_rows = pass->sequence->n_tokens };

	for (int i = 0; i < N_MAMBA_COLUMNS; i++) {
		args.factor = factors[i];
		args.n_cols = widths[i];
		if (args.factor != 1)
			w->ops->scale(w->stream, &args);
		args.x.data += widths[i];
	}
}

static void convolve(const struct pass *pass, const struct columns *columns)
{
	const struct layer *layer = pass->layer;
	struct workspace *w = pass->workspace;
	const struct convolve_args args = {
		.activation = ACT_SILU,
		.x = { w->mamba.projected + columns->inner, columns->all },
		.weight = { layer->vector[VECTOR_CONV], columns->convolved },
		.bias = layer->vector[VECTOR_CONV_BIAS],
		.width = pass->forward->model->mamba.conv_width,
		.n_tokens = pass->sequence->n_tokens,
		.n_cols = columns->convolved,
		.y = { w->mamba.convolved, columns->convolved },
	};

	w->ops->convolve(w->stream, &args);
}

static void scan(const struct pass *pass, const struct columns *columns)
{
	const struct mamba *mamba = &pass->forward->model->mamba;
	float *const *vector = pass->layer->vector;
	struct workspace *w = pass->workspace;
	const float *x = w->mamba.convolved;
	const float *steps = w->mamba.projected + columns->inner + columns->convolved;
	const struct scan_args args = {
		.n_tokens = pass->sequence->n_tokens,
		.n_heads = mamba->n_heads,
		.head_dim = mamba->head_dim,
		.n_groups = mamba->n_groups,
		.state_size = mamba->state_size,
		.x = { x, columns->convolved },
		.b = { x + columns->inner, columns->convolved },
		.c = { x + columns->inner + columns->group, columns->convolved },
		.steps = { steps, columns->all },
		.step_min = mamba->step_min,
		.step_max = mamba->step_max,
		.step_bias = vector[VECTOR_DT_BIAS],
		.a_log = vector[VECTOR_A_LOG],
		.skip = vector[VECTOR_SKIP],
		.y = { w->mamba.scanned, columns->inner },
		.scratch = w->scratch,
	};

	w->ops->scan(w->stream, &args);
}

/* scanned *= silu(z). */
static void gate(const struct pass *pass, const struct columns *columns)
{
	struct workspace *w = pass->workspace;
	const struct gate_args args = { .activation = ACT_SILU,
					.gate = { w->mamba.projected, columns->all },
					.up = { w->mamba.scanned, columns->inner },
					.n_rows = pass->sequence->n_tokens,
					.n_cols = columns->inner,
					.y = { w->mamba.scanned, columns->inner } };

	w->ops->gate(w->stream, &args);
}

/* Norms the values of each group of heads. */
static void norm(const struct pass *pass, const struct columns *columns)
{
	size_t n_groups = pass->forward->model->mamba.n_groups, n_cols = columns->inner / n_groups;
	const float *weight = pass->layer->vector[VECTOR_NORM_GATED];

	for (size_t i = 0; i < n_groups; i++) {
		float *scanned = pass->workspace->mamba.scanned + i * n_cols;

		pass_norm(pass, (struct rows_in){ scanned, columns->inner }, weight + i * n_cols,
			  (struct rows_out){ scanned, columns->inner }, pass->sequence->n_tokens,
			  n_cols);
	}
}

void mamba_run(const struct pass *pass)
{
	const struct mamba *mamba = &pass->forward->model->mamba;
	const struct columns columns = columns_of(mamba);
	const struct linear *l = pass->layer->linear;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;

	pass_linear(pass, &l[LINEAR_MAMBA_IN], w->own->normed, n, w->mamba.projected);
	scale_columns(pass, &columns);
	convolve(pass, &columns);
	scan(pass, &columns);
	if (!mamba->norm_first)
		gate(pass, &columns);
	if (mamba->has_norm)
		norm(pass, &columns);
	if (mamba->norm_first)
		gate(pass, &columns);
	pass_linear(pass, &l[LINEAR_MAMBA_OUT], w->mamba.scanned, n, w->own->out);
}

/* Both take the input of the layer, each with a factor of its own; their outputs are added. */
void mamba_run_beside(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	const struct multipliers *m = &model->multipliers;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens, hidden = model->hidden;

	pass_copy_tokens(pass, w->own->normed, w->mamba.input);
	pass_scale(pass, w->own->normed, m->mamba_in, n, hidden);
	mamba_run(pass);
	pass_scale(pass, w->own->out, m->mamba_out, n, hidden);
	pass_copy_tokens(pass, w->own->out, w->mamba.out);
	pass_copy_tokens(pass, w->mamba.input, w->own->normed);
	pass_scale(pass, w->own->normed, m->attention_in, n, hidden);
	attention_run(pass);
	pass_observe_out(pass);
	pass_scale(pass, w->own->out, m->attention_out, n, hidden);
	pass_add(pass, w->own->out, w->mamba.out, n * hidden);
}

/* Mamba-1 (arXiv 2312.00752) of one sequence, as Jamba has it: one matrix gives the values x and
 * the gates z; the convolution of x; a second matrix gives b, c, and what a third one turns into
 * steps, each with a norm; the scan; the gate; the output matrix.  Source: transformers 5.23,
 * modeling_jamba.py. */

_Static_assert(MODEL_MAX_CHANNEL_STATE <= SCAN_CHANNELS_MAX_STATE, "a state fits the executors");

static void mamba1_convolve(const struct pass *pass)
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
static void mamba1_norm_parts(const struct pass *pass)
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

static void mamba1_scan(const struct pass *pass)
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
static void mamba1_gate(const struct pass *pass)
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
	mamba1_convolve(pass);
	pass_linear(pass, &l[LINEAR_MAMBA_X], m->x, n, m->selected);
	mamba1_norm_parts(pass);
	pass_linear(pass, &l[LINEAR_MAMBA_STEP], m->step_input, n, m->steps);
	mamba1_scan(pass);
	mamba1_gate(pass);
	pass_linear(pass, &l[LINEAR_MAMBA_OUT], m->scanned, n, w->own->out);
}
