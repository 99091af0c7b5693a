/* SPDX-License-Identifier: Apache-2.0
 *
 * The other half of a layer: a gated mlp, or experts that tokens are sent to.
 */
#include <math.h>

#include "backend/host_ops.h"
#include "forward/pass.h"

/* The matrices of an mlp: gate and up, or both in one. */
struct mlp {
	const struct linear *gate, *up;
	const struct linear *joined; /* NULL: not */
	bool in_turn; /* joined row by row, as GPT-OSS has it; else one behind the other */
	const struct linear *down;
};

/* m rows of lane->joined to lane->gate. */
static void gate_joined(const struct forward *forward, struct workspace *lane,
			const struct mlp *mlp, size_t m)
{
	const struct executor_ops *ops = lane->ops;
	size_t width = mlp->down->ref->k;

	if (mlp->in_turn)
		ops->gate_interleaved(lane->executor, lane->joined, forward->model->clamp,
				      m * width, lane->gate);
	else
		ops->gate(lane->executor,
			  &(const struct gate_args){ .activation = forward->model->activation,
						     .gate = { lane->joined, 2 * width },
						     .up = { lane->joined + width, 2 * width },
						     .n_rows = m,
						     .n_cols = width,
						     .y = { lane->gate, width } });
}

static int run_rows(const struct forward *forward, struct workspace *lane,
		    const struct layer *layer, const struct mlp *mlp,
		    const struct sequence *sequence, float *x, size_t m, float *out,
		    struct err *err)
{
	const struct linear *const both[] = { mlp->gate, mlp->up };
	float *const ys[] = { lane->gate, lane->up };
	size_t width = mlp->down->ref->k;

	if (mlp->joined) {
		if (linear_run(forward, lane, layer, mlp->joined, sequence, x, m, lane->joined,
			       err))
			return -1;
		gate_joined(forward, lane, mlp, m);
	} else {
		if (linears_run(forward, lane, layer, 2, both, sequence, x, m, ys, err))
			return -1;
		lane->ops->gate(lane->executor,
				&(const struct gate_args){ .activation = forward->model->activation,
							   .gate = { lane->gate, width },
							   .up = { lane->up, width },
							   .n_rows = m,
							   .n_cols = width,
							   .y = { lane->gate, width } });
	}
	return linear_run(forward, lane, layer, mlp->down, sequence, lane->gate, m, out, err);
}

/* x (m, hidden) to out, of the same shape. */
static int run_mlp(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		   const struct mlp *mlp, const struct sequence *sequence, float *x, size_t m,
		   float *out, struct err *err)
{
	size_t hidden = forward->model->hidden, n_slots_used = lane->n_slots_used;
	size_t most = forward_rows(forward, lane, 2 * (hidden + mlp->down->ref->k));

	for (size_t row = 0; row < m; row += most) {
		lane->n_slots_used = n_slots_used;
		if (run_rows(forward, lane, layer, mlp, sequence, x + row * hidden,
			     m - row < most ? m - row : most, out + row * hidden, err))
			return -1;
	}
	return 0;
}

static int run_dense(const struct forward *forward, struct workspace *lane,
		     const struct layer *layer, const struct sequence *sequence, struct err *err)
{
	const struct linear *l = layer->linear;
	const struct mlp mlp = { .gate = &l[LINEAR_GATE],
				 .up = &l[LINEAR_UP],
				 .joined =
					 l[LINEAR_GATE_UP].weight.data ? &l[LINEAR_GATE_UP] : NULL,
				 .down = &l[LINEAR_DOWN] };

	return run_mlp(forward, lane, layer, &mlp, sequence, lane->normed, sequence->n_tokens,
		       lane->out, err);
}

/* The n largest of a row, by index; of equal ones the first. */
static void pick(const float *row, size_t n_row, size_t n, size_t *picked)
{
	for (size_t i = 0; i < n; i++) {
		size_t best = SIZE_MAX;

		for (size_t e = 0; e < n_row; e++) {
			bool taken = false;

			for (size_t j = 0; j < i; j++)
				taken |= picked[j] == e;
			if (!taken && (best == SIZE_MAX || row[e] > row[best]))
				best = e;
		}
		picked[i] = best;
	}
}

/* Only the experts of the best groups stay, by the sum of the two best of each. */
static void close_groups(const struct routing *routing, float *row, size_t n_experts)
{
	size_t size = n_experts / routing->n_groups;

	for (size_t closed = routing->n_groups; closed > routing->top_groups; closed--) {
		size_t worst = SIZE_MAX, best[2];
		float least = INFINITY;

		for (size_t g = 0; g < routing->n_groups; g++) {
			float sum;

			pick(row + g * size, size, 2, best);
			sum = row[g * size + best[0]] + row[g * size + best[1]];
			if (sum > -INFINITY && sum <= least) {
				least = sum;
				worst = g;
			}
		}
		for (size_t e = 0; worst != SIZE_MAX && e < size; e++)
			row[worst * size + e] = -INFINITY;
	}
}

/* Scores of the chosen ones alone, to weights that sum up to 1. */
static void share(float *weights, size_t n)
{
	float sum = 0, most = weights[0];

	for (size_t i = 0; i < n; i++) {
		weights[i] = expf(weights[i] - most);
		sum += weights[i];
	}
	for (size_t i = 0; i < n; i++)
		weights[i] /= sum;
}

/* Which experts a token goes to, and with which weights, from its scores.  spare: n_experts
 * floats. */
static void choose(const struct routing *routing, const float *bias, const float *row,
		   size_t n_experts, size_t *chosen, float *weights, float *spare)
{
	float sum = 0;

	for (size_t e = 0; e < n_experts; e++)
		spare[e] = bias ? row[e] + bias[e] : row[e];
	if (routing->n_groups > 1)
		close_groups(routing, spare, n_experts);
	pick(spare, n_experts, routing->top_k, chosen);
	for (size_t i = 0; i < routing->top_k; i++) {
		weights[i] = row[chosen[i]];
		sum += weights[i];
	}
	if (routing->choose_first)
		share(weights, routing->top_k);
	for (size_t i = 0; i < routing->top_k; i++)
		weights[i] = (routing->norm_top_k ? weights[i] / (sum + 1e-20f) : weights[i]) *
			     routing->scale;
}

/* The host's: scores to chosen experts, token by token. */
static void choose_all(const struct forward *forward, struct workspace *lane,
		       const struct layer *layer, size_t n_tokens)
{
	const struct host_ops *host = host_ops_select();
	const struct routing *routing = &forward->model->routing;
	size_t n_experts = layer->ref->n_experts;

	for (size_t t = 0; t < n_tokens; t++) {
		float *row = lane->host_scores + t * n_experts;

		if (routing->sigmoid)
			for (size_t e = 0; e < n_experts; e++)
				row[e] = 1.0f / (1.0f + expf(-row[e]));
		else if (!routing->choose_first)
			host->softmax(row, n_experts);
		choose(routing, layer->vector[VECTOR_ROUTER_BIAS], row, n_experts,
		       lane->chosen + t * routing->top_k, lane->weights + t * routing->top_k,
		       lane->host_scores + n_tokens * n_experts);
	}
}

/* Tokens by expert: those of expert e, with their weights, follow those of all before it. */
static void sort_tokens(struct workspace *lane, size_t top_k, size_t n_experts, size_t n_tokens)
{
	size_t n = 0;

	for (size_t e = 0; e < n_experts; e++)
		for (size_t i = 0; i < n_tokens * top_k; i++)
			if (lane->chosen[i] == e) {
				lane->host_rows[n] = (uint32_t)(i / top_k);
				lane->host_factors[n++] = lane->weights[i];
			}
	lane->ops->put(lane->executor, lane->rows, lane->host_rows, n * sizeof *lane->rows);
	lane->ops->put(lane->executor, lane->factors, lane->host_factors,
		       n * sizeof *lane->factors);
}

static int route(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		 const struct sequence *sequence, struct err *err)
{
	size_t n = sequence->n_tokens, n_experts = layer->ref->n_experts;

	if (linear_run(forward, lane, layer, &layer->linear[LINEAR_ROUTER], sequence, lane->normed,
		       n, lane->scores, err))
		return -1;
	lane->ops->fetch(lane->executor, lane->host_scores, lane->scores,
			 n * n_experts * sizeof(float));
	if (lane->ops->wait(lane->executor, err))
		return -1;
	choose_all(forward, lane, layer, n);
	sort_tokens(lane, forward->model->routing.top_k, n_experts, n);
	return 0;
}

/* Its tokens are m of lane->rows, from `first` on. */
static int run_expert(const struct forward *forward, struct workspace *lane,
		      const struct layer *layer, size_t expert, const struct sequence *sequence,
		      size_t first, size_t m, struct err *err)
{
	const struct linear *l = layer->experts[expert];
	const struct mlp mlp = { .gate = &l[EXPERT_ROLE_GATE],
				 .up = &l[EXPERT_ROLE_UP],
				 .joined = l[EXPERT_ROLE_GATE_UP].weight.data
						   ? &l[EXPERT_ROLE_GATE_UP]
						   : NULL,
				 .in_turn = true,
				 .down = &l[EXPERT_ROLE_DOWN] };
	size_t hidden = forward->model->hidden;

	if (m == 0)
		return 0;
	lane->ops->gather(lane->executor, lane->gathered, lane->normed, lane->rows + first, m,
			  hidden);
	if (run_mlp(forward, lane, layer, &mlp, sequence, lane->gathered, m, lane->expert_out, err))
		return -1;
	lane->ops->scatter_add(lane->executor,
			       &(const struct scatter_add_args){ .y = lane->out,
								 .x = lane->expert_out,
								 .rows = lane->rows + first,
								 .factors = lane->factors + first,
								 .n_rows = m,
								 .n_cols = hidden });
	return 0;
}

static int run_experts(const struct forward *forward, struct workspace *lane,
		       const struct layer *layer, const struct sequence *sequence, struct err *err)
{
	size_t n_chosen = sequence->n_tokens * forward->model->routing.top_k, first = 0;

	lane->ops->zero(lane->executor, lane->out,
			sequence->n_tokens * forward->model->hidden * sizeof *lane->out);
	for (size_t e = 0; e < layer->ref->n_experts; e++) {
		size_t m = 0;

		for (size_t i = 0; i < n_chosen; i++)
			m += lane->chosen[i] == e;
		if (run_expert(forward, lane, layer, e, sequence, first, m, err))
			return -1;
		first += m;
	}
	return 0;
}

/* All tokens through the shared expert, where there is one. */
static int run_shared(const struct forward *forward, struct workspace *lane,
		      const struct layer *layer, const struct sequence *sequence, struct err *err)
{
	const struct linear *l = layer->linear;
	const struct mlp mlp = { .gate = &l[LINEAR_SHARED_GATE],
				 .up = &l[LINEAR_SHARED_UP],
				 .down = &l[LINEAR_SHARED_DOWN] };
	size_t n = sequence->n_tokens;

	if (!mlp.down->weight.data)
		return 0;
	if (run_mlp(forward, lane, layer, &mlp, sequence, lane->normed, n, lane->expert_out, err))
		return -1;
	lane->ops->add(lane->executor, lane->out, lane->expert_out, n * forward->model->hidden);
	return 0;
}

int forward_mlp(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		const struct sequence *sequence, struct err *err)
{
	if (!layer->ref->n_experts)
		return run_dense(forward, lane, layer, sequence, err);
	return route(forward, lane, layer, sequence, err) ||
			       run_experts(forward, lane, layer, sequence, err) ||
			       run_shared(forward, lane, layer, sequence, err)
		       ? -1
		       : 0;
}
