/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: the choice of experts against plain loops over the scores, the sorted
 * choices, and rows of several sequences, bit for bit, on the executor of every backend.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/float16.h"
#include "support/executor_sides.h"

/* --- the choice --- */

#define TOKENS	      37
#define MAX_EXPERTS   70
#define MAX_TOP	      9
#define MAX_SHARED    6
#define SHARED_STRIDE (TOKENS + 3)

struct choice {
	enum route_kind kind;
	size_t n_experts, top_k, n_groups, top_groups;
	bool group_max, norm_top_k, biased, scaled;
	float softcap;
	size_t n_shared;
};

static const struct choice choices[] = {
	{ ROUTE_SOFTMAX, 8, 2, 0, 0, false, true, false, false, 0, 0 },
	{ ROUTE_SOFTMAX, 64, 6, 8, 3, true, false, false, false, 0, 0 },
	{ ROUTE_SOFTMAX, 33, 4, 1, 1, false, true, true, false, 0, 0 },
	{ ROUTE_SIGMOID, 64, 8, 8, 4, false, true, true, false, 0, 0 },
	{ ROUTE_SIGMOID, 70, 9, 35, 7, false, true, true, true, 0, 0 },
	{ ROUTE_SIGMOID, 3, 3, 0, 0, false, false, false, false, 0, 0 },
	{ ROUTE_SIGMOID, 70, 9, 0, 0, false, true, true, false, 0.75f, 0 },
	{ ROUTE_CHOSEN_SOFTMAX, 32, 4, 0, 0, false, false, true, false, 1.5f, 0 },
	{ ROUTE_CHOSEN_SOFTMAX, 32, 4, 0, 0, false, false, true, false, 0, 0 },
	{ ROUTE_CHOSEN_SOFTMAX, 40, 8, 2, 1, false, false, false, true, 0, 0 },
	{ ROUTE_CHOSEN_SIGMOID, 16, 1, 0, 0, false, false, false, false, 0, 0 },
	{ ROUTE_SIGMOID, 8, 3, 0, 0, false, true, true, false, 0, 3 },
	{ ROUTE_SIGMOID, 64, 6, 0, 0, false, true, true, false, 0, 1 },
	{ ROUTE_SIGMOID, 64, 4, 8, 4, false, false, true, true, 0.75f, 6 },
	{ ROUTE_SQRT_SOFTPLUS, 40, 5, 0, 0, false, true, false, false, 0, 2 },
};

#define SUM_EPS 1e-20f
#define SCALE	2.5f

/* What goes in and comes out of a choice. */
struct chosen {
	float scores[2 * TOKENS * MAX_EXPERTS];
	float bias[MAX_EXPERTS], scales[MAX_EXPERTS];
	uint32_t chosen[TOKENS * MAX_TOP];
	float weights[TOKENS * MAX_TOP];
	float shared_weights[MAX_SHARED * SHARED_STRIDE];
};

/* Of few values, so that many are equal, and some of them -inf. */
static void chosen_fill(struct chosen *c)
{
	for (size_t i = 0; i < TOKENS * MAX_EXPERTS; i++)
		c->scores[i] = i % 101 == 7 ? -INFINITY : floorf(noise_next() * 2) / 2;
	for (size_t e = 0; e < MAX_EXPERTS; e++) {
		c->bias[e] = floorf(noise_next()) / 8;
		c->scales[e] = 1 + noise_next() / 8;
	}
}

static double logit_of(const struct choice *c, float logit)
{
	double cap = (double)c->softcap;

	return cap > 0 ? cap * tanh((double)logit / cap) : (double)logit;
}

/* The score of an expert as it is chosen by, in fp64 but of fp32 where equal ones must be equal. */
static double score_of(const struct choice *c, const float *logits, size_t e)
{
	double sum = 0, logit = logit_of(c, logits[e]);

	if (c->kind == ROUTE_SIGMOID)
		return 1 / (1 + exp(-logit));
	if (c->kind == ROUTE_SQRT_SOFTPLUS)
		return sqrt(log1p(exp(logit)));
	if (c->kind != ROUTE_SOFTMAX)
		return logit;
	for (size_t i = 0; i < c->n_experts; i++)
		sum += exp(logit_of(c, logits[i]));
	return exp(logit) / sum;
}

/* How many scores of n are better than score i: larger, or equal and before it. */
static size_t n_better(const double *scores, size_t n, size_t i)
{
	size_t better = 0;

	for (size_t e = 0; e < n; e++)
		better += scores[e] > scores[i] || (scores[e] == scores[i] && e < i);
	return better;
}

static double group_score(const struct choice *c, const double *scores, size_t size)
{
	double best[2] = { -INFINITY, -INFINITY };

	for (size_t e = 0; e < size; e++)
		if (n_better(scores, size, e) < 2)
			best[n_better(scores, size, e)] = scores[e];
	return c->group_max ? best[0] : (double)((float)best[0] + (float)best[1]);
}

/* Puts experts outside of the best groups behind all others. */
static void close_groups(const struct choice *c, double *scores)
{
	double groups[MAX_EXPERTS];
	size_t size = c->n_groups ? c->n_experts / c->n_groups : 0;

	for (size_t g = 0; g < c->n_groups; g++)
		groups[g] = group_score(c, scores + g * size, size);
	for (size_t e = 0; c->n_groups > 1 && e < c->n_experts; e++)
		if (n_better(groups, c->n_groups, e / size) >= c->top_groups)
			scores[e] = -INFINITY;
}

/* Compares the weights of experts that are not chosen; sum: of the scores of all. */
static void shared_check(const struct choice *c, const struct chosen *in, const struct chosen *out,
			 size_t t, double sum)
{
	const float *logits = in->scores + t * (c->n_experts + c->n_shared);

	for (size_t i = 0; i < c->n_shared; i++) {
		double weight = (double)SCALE * score_of(c, logits, c->n_experts + i) /
				(c->norm_top_k ? sum + (double)SUM_EPS : 1);
		double found = (double)out->shared_weights[i * SHARED_STRIDE + t];

		if (!(fabs(found - weight) <= 2e-6 * weight))
			fail_msg("kind %d of %zu, token %zu, shared expert %zu: weight %g, not %g",
				 c->kind, c->n_experts, t, i, found, weight);
	}
}

/* Compares the choice of a token with plain loops. */
static void choice_check(const struct choice *c, const struct chosen *in, const struct chosen *out,
			 size_t t)
{
	const float *logits = in->scores + t * (c->n_experts + c->n_shared);
	double biased[MAX_EXPERTS], sum = 0, all = 0;
	size_t n = 0;

	for (size_t e = 0; e < c->n_experts; e++)
		biased[e] = (double)((float)score_of(c, logits, e) + (c->biased ? in->bias[e] : 0));
	close_groups(c, biased);
	for (size_t e = 0; e < c->n_experts; e++) {
		if (n_better(biased, c->n_experts, e) >= c->top_k)
			continue;
		sum += score_of(c, logits, e);
		all += exp(logit_of(c, logits[e]));
	}
	for (size_t i = 0; i < c->n_shared; i++)
		sum += score_of(c, logits, c->n_experts + i);
	shared_check(c, in, out, t, sum);
	for (size_t e = 0; e < c->n_experts; e++) {
		double weight = score_of(c, logits, e);

		if (n_better(biased, c->n_experts, e) >= c->top_k)
			continue;
		if (c->kind == ROUTE_CHOSEN_SOFTMAX)
			weight = exp(logit_of(c, logits[e])) / all;
		if (c->kind == ROUTE_CHOSEN_SIGMOID)
			weight = 1 / (1 + exp(-logit_of(c, logits[e])));
		if (c->norm_top_k)
			weight /= sum + (double)SUM_EPS;
		weight *= (double)SCALE * (c->scaled ? (double)in->scales[e] : 1);
		if (out->chosen[t * c->top_k + n] != e)
			fail_msg("kind %d of %zu, token %zu: expert %u, not %zu", c->kind,
				 c->n_experts, t, out->chosen[t * c->top_k + n], e);
		if (!(fabs((double)out->weights[t * c->top_k + n] - weight) <= 2e-6 * weight))
			fail_msg("kind %d of %zu, token %zu, expert %zu: weight %g, not %g",
				 c->kind, c->n_experts, t, e,
				 (double)out->weights[t * c->top_k + n], weight);
		n++;
	}
}

static void choice_run(const struct side *s, const struct choice *c, struct chosen *io)
{
	size_t n = TOKENS * c->top_k, n_all = c->n_experts + c->n_shared;
	size_t shared_size = c->n_shared * SHARED_STRIDE * sizeof(float);
	float *scores = side_put(s, io->scores, 2 * TOKENS * n_all * sizeof(float));
	float *bias = side_put(s, io->bias, c->n_experts * sizeof(float));
	float *scales = side_put(s, io->scales, c->n_experts * sizeof(float));
	const struct route_args args = { .n_tokens = TOKENS,
					 .n_experts = c->n_experts,
					 .top_k = c->top_k,
					 .n_shared = c->n_shared,
					 .shared_weights = side_memory_new(s, shared_size),
					 .shared_stride = SHARED_STRIDE,
					 .kind = c->kind,
					 .n_groups = c->n_groups,
					 .top_groups = c->top_groups,
					 .group_max = c->group_max,
					 .norm_top_k = c->norm_top_k,
					 .sum_eps = SUM_EPS,
					 .scale = SCALE,
					 .softcap = c->softcap,
					 .bias = c->biased ? bias : NULL,
					 .expert_scales = c->scaled ? scales : NULL,
					 .scores = scores,
					 .chosen = side_memory_new(s, n * sizeof(uint32_t)),
					 .weights = side_memory_new(s, n * sizeof(float)) };

	s->ops->route(s->stream, &args);
	side_take(s, args.chosen, io->chosen, n * sizeof(uint32_t));
	side_take(s, args.weights, io->weights, n * sizeof(float));
	side_take(s, args.shared_weights, io->shared_weights, shared_size);
	s->ops->memory_free(s->executor, scores);
	s->ops->memory_free(s->executor, bias);
	s->ops->memory_free(s->executor, scales);
}

static void experts_are_chosen_by_score(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(choices); i++) {
		static struct chosen in, out;

		chosen_fill(&in);
		EACH_SIDE(s)
		{
			out = in;
			choice_run(s, &choices[i], &out);
			for (size_t t = 0; t < TOKENS; t++)
				choice_check(&choices[i], &in, &out, t);
		}
	}
}

/* A NaN that comes first is chosen first, and others last, wherever they are; and no result but
 * the choice has a meaning. */
static void nan_scores_are_chosen_alike(void **state)
{
	static const struct choice choice = { .kind = ROUTE_CHOSEN_SIGMOID,
					      .n_experts = 40,
					      .top_k = 5 };
	static struct chosen in, first, out;

	(void)state;
	chosen_fill(&in);
	for (size_t t = 0; t < TOKENS; t++)
		for (size_t e = t; e < t + 3; e++)
			in.scores[t * choice.n_experts + e] = NAN;
	EACH_SIDE(s)
	{
		out = in;
		choice_run(s, &choice, &out);
		if (s == sides)
			first = out;
		assert_memory_equal(out.chosen, first.chosen,
				    TOKENS * choice.top_k * sizeof *out.chosen);
	}
}

/* --- the sorted choices --- */

#define SORTED 600 /* tokens: more than a block of threads has choices */
#define TOP    3

struct sorted {
	uint32_t rows[SORTED * TOP], segments[SORTED * TOP], places[SORTED * TOP];
	uint32_t counts[MAX_EXPERTS * SORT_MAX_SEQUENCES];
	float factors[SORTED * TOP];
};

/* Ascending in a token, and some experts without any token. */
static void choices_fill(uint32_t *chosen, float *weights, size_t n_experts)
{
	for (size_t t = 0; t < SORTED; t++)
		for (size_t i = 0; i < TOP; i++) {
			size_t at = n_experts / TOP * i + (t * 7 + i) % (n_experts / TOP) / 2 * 2;

			chosen[t * TOP + i] = (uint32_t)at;
			weights[t * TOP + i] = noise_next();
		}
}

static void sort_plainly(const struct sort_choices_args *args, struct sorted *wanted)
{
	uint32_t n = 0;

	memset(wanted, 0, sizeof *wanted);
	for (size_t e = 0; e < args->n_experts; e++)
		for (size_t i = 0; i < SORTED * TOP; i++) {
			size_t s = 0, token = i / TOP;

			if (args->chosen[i] != e)
				continue;
			while (token >= args->ends[s])
				s++;
			wanted->rows[n] = (uint32_t)token;
			wanted->factors[n] = args->weights[i];
			wanted->segments[n] = (uint32_t)(e * args->n_sequences + s);
			wanted->counts[wanted->segments[n]]++;
			wanted->places[i] = n++;
		}
}

static void array_check(const struct side *s, void *there, const void *wanted, size_t size)
{
	void *here = host_memory_new(size);

	side_take(s, there, here, size);
	assert_memory_equal(here, wanted, size);
	free(here);
}

static void sort_check(const struct side *s, struct sort_choices_args args)
{
	size_t n = SORTED * TOP, counts = args.n_experts * args.n_sequences * sizeof(uint32_t);
	void *chosen, *weights;
	struct sorted wanted;

	sort_plainly(&args, &wanted);
	args.chosen = chosen = side_put(s, args.chosen, n * sizeof(uint32_t));
	args.weights = weights = side_put(s, args.weights, n * sizeof(float));
	args.rows = side_memory_new(s, n * sizeof(uint32_t));
	args.factors = side_memory_new(s, n * sizeof(float));
	args.segments = side_memory_new(s, n * sizeof(uint32_t));
	args.places = side_memory_new(s, n * sizeof(uint32_t));
	args.counts = side_memory_new(s, counts);
	s->ops->sort_choices(s->stream, &args);
	array_check(s, args.rows, wanted.rows, n * sizeof(uint32_t));
	array_check(s, args.factors, wanted.factors, n * sizeof(float));
	array_check(s, args.segments, wanted.segments, n * sizeof(uint32_t));
	array_check(s, args.places, wanted.places, n * sizeof(uint32_t));
	array_check(s, args.counts, wanted.counts, counts);
	s->ops->memory_free(s->executor, chosen);
	s->ops->memory_free(s->executor, weights);
}

static void choices_are_sorted_by_expert(void **state)
{
	static uint32_t chosen[SORTED * TOP];
	static float weights[SORTED * TOP];
	static const struct sort_choices_args kinds[] = {
		{ .n_experts = 6, .n_sequences = 1, .ends = { SORTED } },
		{ .n_experts = 12, .n_sequences = 3, .ends = { 1, 300, SORTED } },
		{ .n_experts = 69,
		  .n_sequences = 8,
		  .ends = { 5, 9, 90, 300, 301, 500, 599, SORTED } },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(kinds); i++) {
		struct sort_choices_args args = kinds[i];

		choices_fill(chosen, weights, args.n_experts);
		args.chosen = chosen;
		args.weights = weights;
		args.n_tokens = SORTED;
		args.top_k = TOP;
		EACH_SIDE(s)
		sort_check(s, args);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(experts_are_chosen_by_score),
		cmocka_unit_test(nan_scores_are_chosen_alike),
		cmocka_unit_test(choices_are_sorted_by_expert),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
