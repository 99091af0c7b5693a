/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: attention whose products may be of bf16, against sums in double, on the
 * executor of every backend.
 *
 * Shares, their sum and values are rounded to bf16, which is at most 2^-9 of each: so y is off by
 * at most 3 * 2^-9 of the weighted |v|.  Scores have 16 bits; sums of |q k| of some 100 make 2^-10 of
 * a share.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/executor_sides.h"

#define BOUND (3.0 / 512 + 1.0 / 1024)

/* Random values in [-1, 1) times factor, and a place for what is computed. */
struct array {
	size_t n;
	float *values, *there;
};

static uint32_t random_state = 1;

static struct array array_new(size_t n, float factor)
{
	struct array array = { n, host_memory_new(n * sizeof(float)), NULL };

	for (size_t i = 0; i < n; i++) {
		random_state = random_state * 1664525 + 1013904223;
		array.values[i] = factor * ((float)(random_state >> 8) / (1 << 23) - 1);
	}
	return array;
}

struct setup {
	struct attention_args args;
	struct array q, k, v, sinks;
	double *y, *bound; /* (n_tokens, n_heads, value_dim) */
};

/* Returns the score of a key. */
static double score_of(const struct setup *s, size_t head, size_t query, size_t key)
{
	const struct attention_args *a = &s->args;
	size_t kv_head = head / (a->n_heads / a->n_kv_heads);
	const float *q = s->q.values + (query * a->n_heads + head) * a->head_dim;
	const float *k = s->k.values + (key * a->n_kv_heads + kv_head) * a->head_dim;
	double sum = 0;

	for (size_t i = 0; i < a->head_dim; i++)
		sum += (double)q[i] * k[i];
	sum *= a->scale;
	return a->softcap > 0 ? a->softcap * tanh(sum / a->softcap) : sum;
}

/* Writes y and its bound of one query. */
static void query_run(struct setup *s, size_t head, size_t query, double *shares)
{
	const struct attention_args *a = &s->args;
	size_t kv_head = head / (a->n_heads / a->n_kv_heads);
	size_t begin = a->window && query + 1 > a->window ? query + 1 - a->window : 0;
	double total = a->sinks ? exp((double)s->sinks.values[head]) : 0;

	for (size_t t = begin; t <= query; t++)
		total += shares[t] = exp(score_of(s, head, query, t));
	for (size_t i = 0; i < a->value_dim; i++) {
		size_t at = (query * a->n_heads + head) * a->value_dim + i;

		s->y[at] = s->bound[at] = 0;
		for (size_t t = begin; t <= query; t++) {
			double part = shares[t] / total *
				      s->v.values[(t * a->n_kv_heads + kv_head) * a->value_dim + i];

			s->y[at] += part;
			s->bound[at] += fabs(part) * BOUND;
		}
	}
}

/* Frees y, memory of the side. */
static void check(const struct side *side, const struct setup *s, float *y)
{
	const struct attention_args *a = &s->args;
	size_t n = a->n_tokens * a->n_heads * a->value_dim;
	float *values = host_memory_new(n * sizeof *values);

	side_take(side, y, values, n * sizeof *values);
	for (size_t i = 0; i < n; i++)
		if (!(fabs(values[i] - s->y[i]) <= s->bound[i] + 1e-30))
			fail_msg("%s, %zu tokens, %zu and %zu columns: y[%zu] is %g, %g is %g",
				 side->ops->name, a->n_tokens, a->head_dim, a->value_dim, i,
				 (double)values[i], s->y[i], s->bound[i]);
	free(values);
}

static void attend_there(const struct side *side, const struct setup *s)
{
	struct attention_args args = s->args;
	size_t n = args.n_tokens * args.n_heads * args.value_dim * sizeof(float);
	uint64_t scratch = side->ops->attention_scratch(&args);
	void *poison = host_memory_new(n + scratch);
	float *sinks = side_put(side, s->sinks.values, s->sinks.n * sizeof(float));

	memset(poison, 0xFF, n + scratch);
	args.q = side_put(side, s->q.values, s->q.n * sizeof(float));
	args.k = side_put(side, s->k.values, s->k.n * sizeof(float));
	args.v = side_put(side, s->v.values, s->v.n * sizeof(float));
	args.y = side_put(side, poison, n);
	args.scratch = side_put(side, poison, scratch);
	args.sinks = args.sinks ? sinks : NULL;
	side->ops->attend(side->stream, &args);
	check(side, s, args.y);
	side->ops->memory_free(side->executor, (void *)args.q);
	side->ops->memory_free(side->executor, (void *)args.k);
	side->ops->memory_free(side->executor, (void *)args.v);
	side->ops->memory_free(side->executor, args.scratch);
	side->ops->memory_free(side->executor, sinks);
	free(poison);
}

static void attend_everywhere(const struct attention_args *args)
{
	size_t n = args->n_tokens, heads = args->n_heads, kv_heads = args->n_kv_heads;
	struct setup s = { .args = *args,
			   .q = array_new(n * heads * args->head_dim, 2),
			   .k = array_new(n * kv_heads * args->head_dim, 2),
			   .v = array_new(n * kv_heads * args->value_dim, 3),
			   .sinks = array_new(heads, 6) };
	double *shares = host_memory_new(n * sizeof *shares);

	s.args.bf16 = true;
	s.y = host_memory_new(n * heads * args->value_dim * sizeof *s.y);
	s.bound = host_memory_new(n * heads * args->value_dim * sizeof *s.bound);
	for (size_t query = 0; query < n; query++)
		for (size_t head = 0; head < heads; head++)
			query_run(&s, head, query, shares);
	EACH_SIDE(side)
	attend_there(side, &s);
	free(s.q.values);
	free(s.k.values);
	free(s.v.values);
	free(s.sinks.values);
	free(s.y);
	free(s.bound);
	free(shares);
}

static void long_attention_is_within_bf16(void **state)
{
	static const float any = 0; /* sinks: those of the setup */
	const struct attention_args cases[] = {
		{ 1025, 2, 1, 64, 64, 0, .scale = 0.3f },
		{ 1152, 1, 1, 33, 17, 0, .scale = 0.5f },
		{ 1153, 1, 1, 64, 64, 70, .scale = 0.5f, .sinks = &any },
		{ 1100, 2, 2, 128, 128, 0, .scale = 0.2f, .softcap = 4 },
		{ 1100, 1, 1, 64, 128, 1, .scale = 1 },
		{ 1100, 3, 1, 80, 80, 128, .scale = 0.3f },
		{ 1279, 1, 1, 192, 128, 257, .scale = 0.15f, .sinks = &any },
		{ 1100, 1, 1, 256, 256, 300, .scale = 0.1f },
		{ 1040, 1, 1, 1, 3, 1000, .scale = 3 },
		{ 1030, 1, 1, 257, 2, 100, .scale = 0.1f }, /* exact */
	};

	(void)state;
	for (size_t i = 0; i < (sides_small ? 3 : N_OF(cases)); i++)
		attend_everywhere(&cases[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(long_attention_is_within_bf16) };

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
