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
	return routing->sigmoid ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
}

/* Chooses experts by w->scores, for the tokens of n sequences, and sorts the tokens into the arrays
 * from own->rows on. */
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
					  .rows = w->own->rows,
					  .factors = w->own->factors,
					  .segments = w->route.segments,
					  .places = w->route.places,
					  .counts = w->route.counts };

	for (size_t i = 0; i < n; i++) {
		route.n_tokens += pass->sequence[i].n_tokens;
		sort.ends[i] = route.n_tokens;
	}
	sort.n_tokens = route.n_tokens;
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

/* Finds where the tokens of each expert begin, of one sequence. */
static int choose_alone(const struct pass *pass, struct err *err)
{
	struct workspace *w = pass->workspace;
	size_t n = 0;

	if (router_choose(pass, 1, err))
		return -1;
	for (size_t e = 0; e < pass->layer->ref->n_experts; e++) {
		w->own->begins[e] = n;
		n += w->host.counts[e];
	}
	w->own->begins[pass->layer->ref->n_experts] = n;
	return 0;
}

int router_run(const struct pass *pass, struct err *err)
{
	const struct linear *l = pass->layer->linear;
	bool is_shared = l[LINEAR_SHARED_ROUTER].weight.data != NULL;
	const struct linear *const both[] = { &l[LINEAR_ROUTER], &l[LINEAR_SHARED_ROUTER] };
	struct workspace *w = pass->workspace;
	size_t first = w->grouped ? w->own->first_token : 0, m = pass->sequence->n_tokens;
	float *const ys[] = { w->scores + first * pass->layer->ref->n_experts,
			      w->own->shared_scores };
	const struct products products = {
		.linears = both, .n = is_shared ? 2 : 1, .x = w->own->normed, .m = m, .ys = ys
	};

	pass_products(pass, &products);
	if (is_shared)
		pass_activate(pass, ACT_SIGMOID, w->own->shared_scores, m);
	return w->grouped ? 0 : choose_alone(pass, err);
}
