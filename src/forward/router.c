/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the experts of each token and their weights: the product runs on the executor, the choice
 * on the host.
 */
#include <math.h>

#include "backend/host_ops.h"
#include "forward/pass.h"
#include "num/activation.h"

/* Finds the indices of the k largest of n scores; the first of equal ones. */
static void top_k(const float *scores, size_t n, size_t k, size_t *chosen)
{
	for (size_t i = 0; i < k; i++) {
		size_t best = SIZE_MAX;

		for (size_t e = 0; e < n; e++) {
			bool taken = false;

			for (size_t j = 0; j < i; j++)
				taken |= chosen[j] == e;
			if (!taken && (best == SIZE_MAX || scores[e] > scores[best]))
				best = e;
		}
		chosen[i] = best;
	}
}

/* Returns the score of a group: of its best expert, or the sum of its two best ones. */
static float score_group(const struct routing *routing, const float *scores, size_t n)
{
	float first = -INFINITY, second = -INFINITY;

	for (size_t e = 0; e < n; e++) {
		second = fmaxf(second, fminf(first, scores[e]));
		first = fmaxf(first, scores[e]);
	}
	return routing->group_max ? first : first + second;
}

/* Sets the scores of experts outside of the best top_groups groups to -inf. */
static void mask_groups(const struct routing *routing, float *scores, size_t n_experts)
{
	size_t size = n_experts / routing->n_groups;

	for (size_t n_open = routing->n_groups; n_open > routing->top_groups; n_open--) {
		size_t worst = SIZE_MAX;
		float min = INFINITY;

		for (size_t g = 0; g < routing->n_groups; g++) {
			float score = score_group(routing, scores + g * size, size);

			if (score > -INFINITY && score <= min) {
				min = score;
				worst = g;
			}
		}
		for (size_t e = 0; worst != SIZE_MAX && e < size; e++)
			scores[worst * size + e] = -INFINITY;
	}
}

/* Replaces the weights of the chosen experts by their sigmoids, or by their softmax. */
static void weigh_chosen(float *weights, size_t n, bool is_sigmoid)
{
	float sum = 0, max = weights[0];

	for (size_t i = 0; is_sigmoid && i < n; i++)
		weights[i] = sigmoid(weights[i]);
	if (is_sigmoid)
		return;
	for (size_t i = 0; i < n; i++) {
		weights[i] = expf(weights[i] - max);
		sum += weights[i];
	}
	for (size_t i = 0; i < n; i++)
		weights[i] /= sum;
}

/* Finds the experts of token t, whose scores are final, and their weights.  The bias affects only
 * the choice. */
static void route(const struct pass *pass, size_t t)
{
	const struct routing *routing = &pass->forward->model->routing;
	const float *bias = pass->layer->vector[VECTOR_ROUTER_BIAS];
	const float *scales = pass->layer->vector[VECTOR_EXPERT_SCALES];
	struct host_arrays *host = &pass->workspace->host;
	size_t n_experts = pass->layer->ref->n_experts;
	const float *scores = host->scores + t * n_experts;
	float *biased = host->scores + pass->sequence->n_tokens * n_experts;
	size_t *chosen = host->chosen + t * routing->top_k;
	float *weights = host->weights + t * routing->top_k, sum = 0;

	for (size_t e = 0; e < n_experts; e++)
		biased[e] = bias ? scores[e] + bias[e] : scores[e];
	if (routing->n_groups > 1)
		mask_groups(routing, biased, n_experts);
	top_k(biased, n_experts, routing->top_k, chosen);
	for (size_t i = 0; i < routing->top_k; i++) {
		weights[i] = scores[chosen[i]];
		sum += weights[i];
	}
	if (routing->choose_first)
		weigh_chosen(weights, routing->top_k, routing->sigmoid);
	for (size_t i = 0; i < routing->top_k; i++)
		weights[i] =
			(routing->norm_top_k ? weights[i] / (sum + routing->sum_eps) : weights[i]) *
			routing->scale * (scales ? scales[chosen[i]] : 1);
}

static void route_all(const struct pass *pass)
{
	const struct host_ops *host = host_ops_select();
	const struct routing *routing = &pass->forward->model->routing;
	size_t n_experts = pass->layer->ref->n_experts;

	for (size_t t = 0; t < pass->sequence->n_tokens; t++) {
		float *scores = pass->workspace->host.scores + t * n_experts;

		if (routing->sigmoid && !routing->choose_first)
			for (size_t e = 0; e < n_experts; e++)
				scores[e] = 1.0f / (1.0f + expf(-scores[e]));
		else if (!routing->choose_first)
			host->softmax(scores, n_experts);
		route(pass, t);
	}
}

/* Sorts tokens by expert: the tokens of expert e, with their weights, follow those of all experts
 * before it, and begin at begins[e]; those of a shared expert with its own router come last. */
static void sort_tokens(const struct pass *pass, const float *shared)
{
	size_t n_experts = pass->layer->ref->n_experts;
	size_t k = pass->forward->model->routing.top_k, n = 0;
	struct workspace *w = pass->workspace;
	struct host_arrays *host = &w->host;

	for (size_t e = 0; e < n_experts; e++) {
		w->own->begins[e] = n;
		for (size_t i = 0; i < pass->sequence->n_tokens * k; i++)
			if (host->chosen[i] == e) {
				host->rows[n] = (uint32_t)(i / k);
				host->factors[n++] = host->weights[i];
			}
	}
	w->own->begins[n_experts] = n;
	for (size_t t = 0; shared && t < pass->sequence->n_tokens; t++) {
		host->rows[n] = (uint32_t)t;
		host->factors[n++] = sigmoid(shared[t]);
	}
	w->ops->put(w->stream, w->own->rows, host->rows, n * sizeof *host->rows);
	w->ops->put(w->stream, w->own->factors, host->factors, n * sizeof *host->factors);
}

int router_run(const struct pass *pass, struct err *err)
{
	const struct linear *l = pass->layer->linear;
	bool is_shared = l[LINEAR_SHARED_ROUTER].weight.data != NULL;
	const struct linear *const both[] = { &l[LINEAR_ROUTER], &l[LINEAR_SHARED_ROUTER] };
	struct workspace *w = pass->workspace;
	struct host_arrays *host = &w->host;
	float *const ys[] = { w->scores, w->shared_scores };
	const struct products products = { .linears = both,
					   .n = is_shared ? 2 : 1,
					   .x = w->own->normed,
					   .m = pass->sequence->n_tokens,
					   .ys = ys };

	if (pass_products(pass, &products, err))
		return -1;
	w->ops->fetch(w->stream, host->scores, w->scores,
		      products.m * pass->layer->ref->n_experts * sizeof(float));
	if (is_shared)
		w->ops->fetch(w->stream, host->shared_scores, w->shared_scores,
			      products.m * sizeof(float));
	if (w->ops->wait(w->stream, err))
		return -1;
	route_all(pass);
	sort_tokens(pass, is_shared ? host->shared_scores : NULL);
	return 0;
}
