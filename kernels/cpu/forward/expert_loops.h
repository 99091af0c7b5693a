/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of experts for each token, the tokens sorted by expert, and their rows between
 * products, compiled once for each instruction set, as ops_loops.h is.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_EXPERT_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_EXPERT_LOOPS_H

#include <stdlib.h>

#include "backend/routing.h"
#include "base/mem.h"
#include "kernels/cpu/forward/stats_loops.h"

/* Turns a row of n scores into probabilities. */
static void softmax(float *x, size_t n)
{
	float all = log_sum_exp(x, n);

	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_exp(lanes_at(x, i, n) - all));
}

/* Finds the indices of the k largest of n scores; the first of equal ones. */
static void top_k(const float *scores, size_t n, size_t k, uint32_t *chosen)
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
		chosen[i] = (uint32_t)best;
	}
}

/* Sets the scores of experts outside of the best top_groups groups to -inf. */
static void mask_groups(const struct route_args *args, float *scores)
{
	size_t size = args->n_experts / args->n_groups;

	for (size_t n_open = args->n_groups; n_open > args->top_groups; n_open--) {
		size_t worst = SIZE_MAX;
		float min = INFINITY;

		for (size_t g = 0; g < args->n_groups; g++) {
			float score = routing_group_score(args, scores + g * size, size);

			if (score > -INFINITY && score <= min) {
				min = score;
				worst = g;
			}
		}
		for (size_t e = 0; worst != SIZE_MAX && e < size; e++)
			scores[worst * size + e] = -INFINITY;
	}
}

static void route_token(const struct route_args *args, size_t t)
{
	size_t n = args->n_experts, k = args->top_k, n_all = n + args->n_shared;
	float *scores = args->scores + t * n_all, *biased = scores + args->n_tokens * n_all;

	for (size_t e = 0; args->softcap > 0 && e < n_all; e++)
		scores[e] = routing_logit(args, scores[e]);
	if (args->kind == ROUTE_SOFTMAX)
		softmax(scores, n);
	for (size_t e = 0; args->kind != ROUTE_SOFTMAX && e < n_all; e++)
		scores[e] = routing_score(args->kind, scores[e]);
	for (size_t e = 0; e < n; e++)
		biased[e] = args->bias ? scores[e] + args->bias[e] : scores[e];
	if (args->n_groups > 1)
		mask_groups(args, biased);
	if (!args->are_chosen)
		top_k(biased, n, k, args->chosen + t * k);
	routing_end(args, scores, t);
}

static void CPU_OP(route)(const struct route_args *args)
{
	for (size_t t = 0; t < args->n_tokens; t++)
		route_token(args, t);
}

static void CPU_OP(sort_choices)(const struct sort_choices_args *args)
{
	size_t k = args->top_k, n = 0;

	for (size_t e = 0; e < args->n_experts; e++) {
		size_t i = 0;

		for (size_t s = 0; s < args->n_sequences; s++) {
			size_t before = n, segment = e * args->n_sequences + s;

			for (; i < args->ends[s] * k; i++) {
				if (args->chosen[i] != e)
					continue;
				args->rows[n] = (uint32_t)(i / k);
				args->factors[n] = args->weights[i];
				if (args->segments)
					args->segments[n] = (uint32_t)segment;
				if (args->places)
					args->places[i] = (uint32_t)n;
				n++;
			}
			args->counts[segment] = (uint32_t)(n - before);
		}
	}
}

/* Adds rows to their stats, the rows of a segment at once. */
static void segments_add(const struct take_rows_args *a)
{
	const uint32_t *segments = a->stats.segments;

	for (size_t r = 0, end; r < a->n_rows; r = end) {
		for (end = r + 1; end < a->n_rows && segments[end] == segments[r];)
			end++;
		stats_add(slot_of(&a->stats, r, a->slot), a->x + r * a->n_cols,
			  (end - r) * a->n_cols);
	}
}

static void CPU_OP(take_rows)(const struct take_rows_args *a)
{
	bool silent = !a->y && !a->round && !a->rows && !a->factors;
	float *piece = a->y ? NULL : xcalloc(a->n_cols, sizeof *piece);
	size_t n = a->n_cols;

	if (silent)
		segments_add(a);
	for (size_t r = 0; !silent && r < a->n_rows; r++) {
		const float *x = a->x + (a->rows ? a->rows[r] : r) * n;
		float *y = a->y ? a->y + r * n : piece;

		for (size_t i = 0; a->factors && i < n; i += LANES)
			lanes_put(y, i, n, a->factors[r] * lanes_at(x, i, n));
		if (!a->factors && y != x)
			memcpy(y, x, n * sizeof *y);
		row_put(a->round, slot_of(&a->stats, r, a->slot), a->codes, y, r, n);
	}
	free(piece);
}

static void CPU_OP(combine)(const struct combine_args *a)
{
	size_t n = a->n_cols;

	for (size_t r = 0; r < a->n_rows; r++) {
		const float *x = a->x + r * n;
		float *y = a->y + a->rows[r] * n, factor = a->factors ? a->factors[r] : 1;

		for (size_t i = 0; i < n; i += LANES)
			lanes_put(y, i, n, lanes_at(y, i, n) + factor * lanes_at(x, i, n));
	}
}

#endif
