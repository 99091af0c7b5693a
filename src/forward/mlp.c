/* SPDX-License-Identifier: Apache-2.0
 *
 * The second step of a layer: one gated mlp, or the experts that the router chose for each token
 * and the expert that all tokens share.
 */
#include <math.h>

#include "forward/pass.h"

/* The matrices of an mlp: gate and up, or both in one. */
struct mlp {
	const struct linear *gate, *up;
	const struct linear *fused; /* gate, and up below it; NULL: two matrices */
	const struct linear *down;
	const float *factors;		/* of rows of the input of `down`; NULL: none */
	bool x_ends;			/* nothing else takes the input */
	struct value_stats **out_stats; /* products.y_stats of `down`; NULL: none */
};

/* What an activation takes: rows of gate and of up, which are added to stats that may be NULL. */
struct gated {
	struct rows_in gate, up;
	struct value_stats *stats[2];
};

/* mlp.gate (m, width) = activation(gate) * up, rounded for the next product; or not rounded, and
 * times the factors of rows. */
static void gate_rows(const struct pass *pass, const struct mlp *mlp, const struct gated *x,
		      size_t m)
{
	size_t width = mlp->down->ref->k;
	struct workspace *w = pass->workspace;
	const struct scale_args scale = {
		.x = { w->mlp.gate, width }, .factors = mlp->factors, .n_rows = m, .n_cols = width
	};
	struct gate_args args = { .activation = pass->forward->model->activation,
				  .limit = pass->layer->ref->limit,
				  .limits_first = pass->forward->model->limits_first,
				  .gate = x->gate,
				  .up = x->up,
				  .gate_stats = x->stats[0],
				  .up_stats = x->stats[1],
				  .n_rows = m,
				  .n_cols = width,
				  .y = { w->mlp.gate, width } };

	if (!mlp->factors)
		args.rounded =
			pass_ready(pass, &w->ready, w->mlp.gate, m * width, w->input.rounded);
	if (args.rounded.codes && !pass_keeps(pass, true))
		args.y.data = NULL;
	w->ops->gate(w->stream, &args);
	if (mlp->factors)
		w->ops->scale(w->stream, &scale);
}

/* Takes pairs (m, width, 2) in fused_out apart: mlp.gate and mlp.up. */
static void take_apart(struct workspace *w, size_t n)
{
	struct copy_args args = { .y = { w->mlp.gate, 1 },
				  .x = { w->fused_out, 2 },
				  .repeat = 1,
				  .n_rows = n,
				  .n_cols = 1 };

	w->ops->copy(w->stream, &args);
	args.y.data = w->mlp.up;
	args.x.data++;
	w->ops->copy(w->stream, &args);
}

/* Writes mlp.gate and mlp.up, n values each, to fused_out as pairs, as one matrix would. */
static void interleave(struct workspace *w, size_t n)
{
	struct copy_args args = { .y = { w->fused_out, 2 },
				  .x = { w->mlp.gate, 1 },
				  .repeat = 1,
				  .n_rows = n,
				  .n_cols = 1 };

	w->ops->copy(w->stream, &args);
	args.y.data++;
	args.x.data = w->mlp.up;
	w->ops->copy(w->stream, &args);
}

void mlp_gate_clamped(const struct pass *pass, size_t m, size_t width, bool are_pairs)
{
	const struct model *model = pass->forward->model;
	struct workspace *w = pass->workspace;
	const struct gate_args args = { .pairs = true,
					.clamp = model->clamp,
					.alpha = model->clamp_alpha,
					.gate.data = w->fused_out,
					.n_rows = m,
					.n_cols = width,
					.y.data = w->mlp.gate };

	if (!are_pairs)
		interleave(w, m * width);
	w->ops->gate(w->stream, &args);
}

/* Computes mlp.gate (m, width) from x (m, hidden) by two matrices. */
static void gate_up(const struct pass *pass, const struct mlp *mlp, float *x, size_t m)
{
	struct workspace *w = pass->workspace;
	const struct linear *const both[] = { mlp->gate, mlp->up };
	float *const ys[] = { w->mlp.gate, w->mlp.up };
	float factor = pass->forward->model->multipliers.gate;
	bool clamped = pass->forward->model->clamped;
	struct value_stats *stats[2] = { NULL, NULL };
	const struct products products = { .linears = both,
					   .n = 2,
					   .x = x,
					   .m = m,
					   .ys = ys,
					   .x_ends = mlp->x_ends,
					   .y_stats = factor != 1 || clamped ? NULL : stats };
	size_t width = mlp->down->ref->k;

	pass_products(pass, &products);
	pass_scale(pass, w->mlp.gate, factor, m, width);
	if (clamped)
		mlp_gate_clamped(pass, m, width, false);
	else
		gate_rows(pass, mlp,
			  &(struct gated){ { w->mlp.gate, width },
					   { w->mlp.up, width },
					   { stats[0], stats[1] } },
			  m);
}

/* The same by one matrix, whose rows of gate come first, or take turns with rows of up. */
static void gate_up_fused(const struct pass *pass, const struct mlp *mlp, float *x, size_t m)
{
	struct workspace *w = pass->workspace;
	bool pairs = pass->forward->model->arch->experts.interleaved;
	size_t width = mlp->down->ref->k;
	struct value_stats *stats = NULL;
	const struct products products = { .linears = &mlp->fused,
					   .n = 1,
					   .x = x,
					   .m = m,
					   .ys = &w->fused_out,
					   .x_ends = mlp->x_ends,
					   .y_stats = pairs ? NULL : &stats };
	struct gated gated = { { w->fused_out, 2 * width },
			       { w->fused_out + width, 2 * width },
			       { NULL, NULL } };

	pass_products(pass, &products);
	gated.stats[0] = gated.stats[1] = stats;
	if (pairs) {
		take_apart(w, m * width);
		gated.gate = (struct rows_in){ w->mlp.gate, width };
		gated.up = (struct rows_in){ w->mlp.up, width };
	}
	gate_rows(pass, mlp, &gated, m);
}

static void run_rows(const struct pass *pass, const struct mlp *mlp, float *x, size_t m, float *out)
{
	struct workspace *w = pass->workspace;
	const struct products down = { .linears = &mlp->down,
				       .n = 1,
				       .x = w->mlp.gate,
				       .m = m,
				       .ys = &out,
				       .x_ends = true,
				       .y_stats = mlp->out_stats };

	if (mlp->fused) {
		gate_up_fused(pass, mlp, x, m);
	} else if (pass->forward->model->activation == ACT_SRELU) {
		pass_linear(pass, mlp->up, x, m, w->mlp.gate);
		pass_activate(pass, ACT_SRELU, w->mlp.gate, m * mlp->down->ref->k);
	} else {
		gate_up(pass, mlp, x, m);
	}
	pass_products(pass, &down);
}

/* Computes out (m, n) from x (m, n), where n is the rows of `down`: a few rows at a time, so that
 * the values between the matrices stay in a cache. */
static void run(const struct pass *pass, const struct mlp *mlp, float *x, size_t m, float *out)
{
	size_t n = mlp->down->ref->n, first_slot = pass->workspace->own->n_slots_used;
	size_t max_rows = pass_rows(pass, 2 * (n + mlp->down->ref->k));

	for (size_t row = 0; row < m; row += max_rows) {
		struct mlp part = *mlp;

		if (mlp->factors)
			part.factors += row;
		pass->workspace->own->n_slots_used = first_slot;
		run_rows(pass, &part, x + row * n, m - row < max_rows ? m - row : max_rows,
			 out + row * n);
	}
}

/* Computes out (tokens, hidden) by the mlp that all tokens pass.  ends: nothing else takes its
 * input; out_stats: as in struct mlp. */
static void run_dense(const struct pass *pass, float *out, bool ends,
		      struct value_stats **out_stats)
{
	const struct model *model = pass->forward->model;
	const struct linear *l = pass->layer->linear;
	const struct linear *fused = &l[LINEAR_GATE_UP];
	const float *scale = pass->layer->vector[VECTOR_MLP_SCALE];
	float factor = model->multipliers.down * (scale ? *scale : 1);
	const struct mlp mlp = { .gate = &l[LINEAR_GATE],
				 .up = &l[LINEAR_UP],
				 .fused = fused->weight.data ? fused : NULL,
				 .down = &l[LINEAR_DOWN],
				 .x_ends = ends,
				 .out_stats = factor == 1 ? out_stats : NULL };
	struct workspace *w = pass->workspace;

	run(pass, &mlp, w->own->normed, pass->sequence->n_tokens, out);
	pass_scale(pass, out, factor, pass->sequence->n_tokens, model->hidden);
}

struct expert_rows experts_rows(const struct pass *pass)
{
	const struct linear *in = &pass->layer->linear[LINEAR_LATENT_IN];
	const struct own_arrays *own = pass->workspace->own;

	if (in->weight.data)
		return (struct expert_rows){ own->latent_in, own->latent_out, in->ref->n };
	return (struct expert_rows){ own->normed, own->out, pass->forward->model->hidden };
}

/* Sets own->normed to a norm of the residual stream, in layers whose router, experts and dense mlp
 * have norms of their own. */
static void norm_input(const struct pass *pass, enum vector_role role)
{
	if (pass->layer->vector[role])
		pass->workspace->own->ready = (struct ready_input){ 0 };
	if (pass->layer->vector[role])
		pass_norm_tokens(pass, pass->sequence->residual, pass->layer->vector[role],
				 pass->workspace->own->normed);
}

static void norm_output(const struct pass *pass, enum vector_role role, float *x)
{
	if (pass->layer->vector[role])
		pass_norm_tokens(pass, x, pass->layer->vector[role], x);
}

/* Computes the scores of experts. */
static void run_router(const struct pass *pass)
{
	const struct model *model = pass->forward->model;

	norm_input(pass, VECTOR_NORM_ROUTER);
	if (model->arch->scaled_router)
		pass_scale(pass, pass->workspace->own->normed, 1 / sqrtf((float)model->hidden),
			   pass->sequence->n_tokens, model->hidden);
	router_run(pass);
}

void experts_begin(const struct pass *pass)
{
	const struct linear *in = &pass->layer->linear[LINEAR_LATENT_IN];
	const struct expert_rows rows = experts_rows(pass);
	size_t n = pass->sequence->n_tokens;
	struct workspace *w = pass->workspace;

	run_router(pass);
	norm_input(pass, VECTOR_NORM_EXPERTS);
	if (in->weight.data)
		pass_linear(pass, in, w->own->normed, n, w->own->latent_in);
	w->ops->zero(w->stream, rows.out, n * rows.width * sizeof *rows.out);
}

/* Adds the outputs of the shared experts that the router weighs, to out: weights multiply the input
 * of their last matrix. */
static void run_weighed(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	size_t first = ref->n_experts + ref->n_image_experts, n = pass->sequence->n_tokens;
	struct workspace *w = pass->workspace;

	for (size_t i = 0; i < ref->n_shared_experts; i++) {
		const struct linear *l = pass->layer->experts[first + i];
		const struct mlp mlp = { .gate = &l[EXPERT_ROLE_GATE],
					 .up = &l[EXPERT_ROLE_UP],
					 .down = &l[EXPERT_ROLE_DOWN],
					 .factors = w->route.shared_weights +
						    i * workspace_group_tokens(w) +
						    w->own->first_token };

		run(pass, &mlp, w->own->normed, n, w->mlp.expert_out);
		pass_add(pass, w->own->out, w->mlp.expert_out, n * pass->forward->model->hidden);
	}
}

/* Adds the output of the shared expert to out, if the layer has one, with the weights that the
 * router has found. */
static void run_shared(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;
	const struct mlp mlp = { .gate = &l[LINEAR_SHARED_GATE],
				 .up = &l[LINEAR_SHARED_UP],
				 .down = &l[LINEAR_SHARED_DOWN] };
	const struct model *model = pass->forward->model;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;
	const struct scale_args scale = { .x = { w->mlp.expert_out, model->hidden },
					  .factors = w->own->shared_scores,
					  .n_rows = n,
					  .n_cols = model->hidden };

	if (!mlp.down->weight.data)
		return;
	run(pass, &mlp, w->own->normed, n, w->mlp.expert_out);
	if (l[LINEAR_SHARED_ROUTER].weight.data)
		w->ops->scale(w->stream, &scale);
	pass_add(pass, w->own->out, w->mlp.expert_out, n * model->hidden);
}

void experts_end(const struct pass *pass)
{
	const struct linear *out = &pass->layer->linear[LINEAR_LATENT_OUT];
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;

	if (out->weight.data)
		pass_linear(pass, out, w->own->latent_out, n, w->own->out);
	run_shared(pass);
	run_weighed(pass);
	norm_output(pass, VECTOR_NORM_EXPERTS_OUT, w->own->out);
	if (!pass->layer->ref->width)
		return;
	if (pass->layer->vector[VECTOR_NORM_EXPERTS])
		norm_input(pass, VECTOR_NORM_MLP);
	run_dense(pass, w->mlp.expert_out, false, NULL);
	norm_output(pass, VECTOR_NORM_DENSE_OUT, w->mlp.expert_out);
	pass_add(pass, w->own->out, w->mlp.expert_out, n * pass->forward->model->hidden);
}

void mlp_run(const struct pass *pass)
{
	struct own_arrays *own = pass->workspace->own;

	run_dense(pass, own->out, true, &own->out_stats);
}
