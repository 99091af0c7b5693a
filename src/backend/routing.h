/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of executor_ops.route() and mix_streams() that every executor computes alike, one token
 * at a time.
 */
#ifndef FP8CONV_BACKEND_ROUTING_H
#define FP8CONV_BACKEND_ROUTING_H

#include <math.h>

#include "backend/expert_args.h"
#include "num/activation.h"
#include "num/softplus.h"

/* 1 / (1 + e^-x). */
NUM_INLINE float routing_sigmoid(float x)
{
	return 1.0f / (1.0f + f32_exp_fine(-x));
}

/* Returns the logit as scores are made of it. */
NUM_INLINE float routing_logit(const struct route_args *args, float x)
{
	if (args->softcap == 0)
		return x;
	return args->softcap * (1.0f - 2.0f / (f32_exp_fine(2.0f * (x / args->softcap)) + 1.0f));
}

/* Returns the score of a logit, of the kinds whose scores have nothing to do with each other. */
NUM_INLINE float routing_score(enum route_kind kind, float x)
{
	if (kind == ROUTE_SIGMOID)
		return routing_sigmoid(x);
	return kind == ROUTE_SQRT_SOFTPLUS ? sqrtf(f32_softplus(x)) : x;
}

/* Returns the score of a group of n experts. */
NUM_INLINE float routing_group_score(const struct route_args *args, const float *scores, size_t n)
{
	float first = -INFINITY, second = -INFINITY;

	for (size_t e = 0; e < n; e++) {
		second = fmaxf(second, fminf(first, scores[e]));
		first = fmaxf(first, scores[e]);
	}
	return args->group_max ? first : first + second;
}

/* Replaces the scores of the chosen experts, the best one first, by their sigmoids, or by their
 * softmax. */
NUM_INLINE void routing_weigh_chosen(enum route_kind kind, float *weights, size_t n)
{
	float sum = 0, max = weights[0];

	if (kind == ROUTE_CHOSEN_SIGMOID) {
		for (size_t i = 0; i < n; i++)
			weights[i] = sigmoid(weights[i]);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		weights[i] = f32_exp_fine(weights[i] - max);
		sum += weights[i];
	}
	for (size_t i = 0; i < n; i++)
		weights[i] /= sum;
}

/* Sorts the chosen experts of a token, with their weights. */
NUM_INLINE void routing_sort(uint32_t *chosen, float *weights, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint32_t expert = chosen[i];
		float weight = weights[i];
		size_t j = i;

		for (; j > 0 && chosen[j - 1] > expert; j--) {
			chosen[j] = chosen[j - 1];
			weights[j] = weights[j - 1];
		}
		chosen[j] = expert;
		weights[j] = weight;
	}
}

/* Ends the choice of token t: args->chosen has its experts, the best one first; scores are of all
 * experts, without the bias. */
NUM_INLINE void routing_end(const struct route_args *args, const float *scores, size_t t)
{
	uint32_t *chosen = args->chosen + t * args->top_k;
	float *weights = args->weights + t * args->top_k;
	const float *shared_scores = scores + args->n_experts;
	float sum = 0;

	for (size_t i = 0; i < args->top_k; i++) {
		weights[i] = scores[chosen[i]];
		sum += weights[i];
	}
	for (size_t i = 0; i < args->n_shared; i++)
		sum += shared_scores[i];
	for (size_t i = 0; i < args->n_shared; i++)
		args->shared_weights[i * args->shared_stride + t] =
			(args->norm_top_k ? shared_scores[i] / (sum + args->sum_eps)
					  : shared_scores[i]) *
			args->scale;
	if (args->kind >= ROUTE_CHOSEN_SOFTMAX)
		routing_weigh_chosen(args->kind, weights, args->top_k);
	for (size_t i = 0; i < args->top_k; i++)
		weights[i] = (args->norm_top_k ? weights[i] / (sum + args->sum_eps) : weights[i]) *
			     args->scale *
			     (args->expert_scales ? args->expert_scales[chosen[i]] : 1);
	routing_sort(chosen, weights, args->top_k);
}

/* Returns the gate of a vector of n values whose product with its key is x. */
NUM_INLINE float routing_root_gate(float x, size_t n)
{
	float c = x / sqrtf((float)n), root = sqrtf(fmaxf(fabsf(c), 1e-6f));

	return routing_sigmoid(c > 0 ? root : c < 0 ? -root : c);
}

/* Divides values i * step, n of them, by their sum + eps. */
NUM_INLINE void routing_normalize(float *x, size_t n, size_t step, float eps)
{
	float sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += x[i * step];
	for (size_t i = 0; i < n; i++)
		x[i * step] /= sum + eps;
}

/* Replaces a row of n values by its softmax, + eps. */
NUM_INLINE void routing_softmax(float *x, size_t n, float eps)
{
	float max = x[0], sum = 0;

	for (size_t i = 1; i < n; i++)
		max = fmaxf(max, x[i]);
	for (size_t i = 0; i < n; i++) {
		x[i] = f32_exp_fine(x[i] - max);
		sum += x[i];
	}
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] / sum + eps;
}

/* Makes pre (n_streams), post and C (behind post) of the products m.  weights NULL: pre alone. */
NUM_INLINE void routing_mix(const struct mix_streams_args *args, const float *m, float *pre,
			    float *weights)
{
	size_t n = args->n_streams;
	float *c = weights ? weights + n : NULL;

	for (size_t i = 0; i < n; i++)
		pre[i] = routing_sigmoid(m[i] * args->scale[0] + args->base[i]) + args->eps;
	for (size_t i = 0; weights && i < n; i++)
		weights[i] = 2 * routing_sigmoid(m[n + i] * args->scale[1] + args->base[n + i]);
	for (size_t i = 0; weights && i < n * n; i++)
		c[i] = m[2 * n + i] * args->scale[2] + args->base[2 * n + i];
	for (size_t i = 0; weights && i < n; i++)
		routing_softmax(c + i * n, n, args->eps);
	for (size_t round = 0; weights && round < args->n_rounds; round++) {
		for (size_t i = 0; round && i < n; i++)
			routing_normalize(c + i * n, n, 1, args->eps);
		for (size_t i = 0; i < n; i++)
			routing_normalize(c + i, n, n, args->eps);
	}
}

#endif
