/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the experts of each token and their weights, on the executor.  The host learns how many
 * tokens each expert has.
 */
#include "forward/pass.h"

static enum route_kind kind_of(const struct routing *routing)
{
	if (routing->choose_first)
		return routing->sigmoid ? ROUTE_CHOSEN_SIGMOID : ROUTE_CHOSEN_SOFTMAX;
	if (routing->sqrt_softplus)
		return ROUTE_SQRT_SOFTPLUS;
	return routing->sigmoid ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
}

/* Looks up the experts of the tokens of n sequences. */
static void look_up(const struct pass *pass, size_t n, uint32_t *chosen)
{
	const float *table = pass->layer->vector[VECTOR_ROUTER_TABLE];
	size_t k = pass->forward->model->routing.top_k, n_chosen = 0;
	struct workspace *w = pass->workspace;

	for (size_t s = 0; s < n; s++)
		for (size_t t = 0; t < pass->sequence[s].n_tokens; t++)
			for (size_t i = 0; i < k; i++)
				w->host.chosen[n_chosen++] =
					(uint32_t)table[pass->sequence[s].tokens[t] * k + i];
	w->ops->put(w->stream, chosen, w->host.chosen, n_chosen * sizeof *chosen);
}

/* Chooses experts by w->scores, for the tokens of n sequences, and sorts the tokens. */
static void choose(const struct pass *pass, size_t n)
{
	const struct routing *routing = &pass->forward->model->routing;
	struct workspace *w = pass->workspace;
	struct route_args route = {
		.n_experts = pass->layer->ref->n_experts,
		.top_k = routing->top_k,
		.kind = kind_of(routing),
		.n_groups = routing->n_groups,
		.top_groups = routing->top_groups,
		.group_max = routing->group_max,
		.norm_top_k = routing->norm_top_k,
		.sum_eps = routing->sum_eps,
		.scale = routing->scale,
		.softcap = routing->softcap,
		.are_chosen = pass->layer->ref->routed_by_token,
		.n_shared = pass->layer->ref->n_shared_experts,
		.shared_weights = w->route.shared_weights,
		.shared_stride = workspace_group_tokens(w),
		.bias = pass->layer->vector[VECTOR_ROUTER_BIAS],
		.expert_scales = pass->layer->vector[VECTOR_EXPERT_SCALES],
		.scores = w->scores,
		.chosen = w->route.chosen,
		.weights = w->route.weights,
	};
	struct sort_choices_args sort = { .chosen = route.chosen,
					  .weights = route.weights,
					  .n_experts = route.n_experts,
					  .top_k = route.top_k,
					  .n_sequences = n,
					  .rows = w->route.rows,
					  .factors = w->route.factors,
					  .segments = w->route.segments,
					  .places = w->route.places,
					  .counts = w->route.counts };

	if (pass->layer->vector[VECTOR_ROUTER_SCALE])
		route.scale *= *pass->layer->vector[VECTOR_ROUTER_SCALE];
	for (size_t i = 0; i < n; i++) {
		route.n_tokens += pass->sequence[i].n_tokens;
		sort.ends[i] = route.n_tokens;
	}
	sort.n_tokens = route.n_tokens;
	if (route.are_chosen)
		look_up(pass, n, route.chosen);
	w->ops->route(w->stream, &route);
	w->ops->sort_choices(w->stream, &sort);
}

int router_choose(const struct pass *pass, size_t n, struct err *err)
{
	struct workspace *w = pass->workspace;

	choose(pass, n);
	w->ops->fetch(w->stream, w->host.counts, w->route.counts,
		      pass->layer->ref->n_experts * n * sizeof *w->host.counts);
	return w->ops->wait(w->stream, err);
}

void router_run(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;
	bool is_shared = l[LINEAR_SHARED_ROUTER].weight.data != NULL;
	const struct linear *const both[] = { &l[LINEAR_ROUTER], &l[LINEAR_SHARED_ROUTER] };
	struct workspace *w = pass->workspace;
	size_t m = pass->sequence->n_tokens;
	float *const ys[] = { w->scores + w->own->first_token * l[LINEAR_ROUTER].ref->n,
			      w->own->shared_scores };
	const struct products products = {
		.linears = both, .n = is_shared ? 2 : 1, .x = w->own->normed, .m = m, .ys = ys
	};

	pass_products(pass, &products);
	if (is_shared)
		pass_activate(pass, ACT_SIGMOID, w->own->shared_scores, m);
}
