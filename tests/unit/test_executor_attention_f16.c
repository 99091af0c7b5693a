/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: attention whose products may be of 11 bits, against sums in double, on the
 * executor of every backend.
 *
 * With u = 2^-11, rounding a query and a key changes their product by 2 u sum |q k| at most, and so
 * the share of that key by that factor; rounding shares and values changes each by u.  Shares that
 * are changed by d[t] change y by at most sum d[t] s[t] (|v[t]| + |y|), as their sum changes too.
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

#define UNIT (1.0 / 2048)

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

/* A key of a query: its share, and by which factor that may change. */
struct share {
	double share, change;
};

static struct share share_of(const struct setup *s, size_t head, size_t query, size_t key)
{
	const struct attention_args *a = &s->args;
	size_t kv_head = head / (a->n_heads / a->n_kv_heads);
	const float *q = s->q.values + (query * a->n_heads + head) * a->head_dim;
	const float *k = s->k.values + (key * a->n_kv_heads + kv_head) * a->head_dim;
	double sum = 0, magnitude = 0;

	for (size_t i = 0; i < a->head_dim; i++) {
		sum += (double)q[i] * k[i];
		magnitude += fabs((double)q[i] * k[i]);
	}
	sum *= a->scale;
	if (a->softcap > 0)
		sum = a->softcap * tanh(sum / a->softcap);
	return (struct share){ exp(sum), expm1(2 * UNIT * a->scale * magnitude) + UNIT };
}

/* Is the key in the set of the query whose own key is `own`?  Now and then, none of 64 adjacent
 * ones but that is. */
static bool in_set(size_t set, size_t own, size_t key)
{
	return own == key || (key / 64 % 3 != own % 4 && (key * 7 + own * 3 + set) % 5 < 2);
}

static uint32_t *sets_new(const struct attention_args *a, size_t *size)
{
	size_t n_keys = attention_n_keys(a), n_words = KEY_WORDS(n_keys);
	uint32_t *sets;

	*size = a->n_sets * a->n_tokens * n_words * sizeof *sets;
	sets = host_memory_new(*size);
	memset(sets, 0, *size);
	for (size_t row = 0; row < a->n_sets * a->n_tokens; row++)
		for (size_t t = 0; t < n_keys; t++)
			if (in_set(row / a->n_tokens, a->n_before + row % a->n_tokens, t))
				sets[row * n_words + t / 32] |= UINT32_C(1) << t % 32;
	return sets;
}

/* Writes y and its bound of one query. */
static void query_run(struct setup *s, size_t head, size_t query, struct share *shares)
{
	const struct attention_args *a = &s->args;
	size_t kv_head = head / (a->n_heads / a->n_kv_heads);
	size_t begin = a->window && query + 1 > a->window ? query + 1 - a->window : 0;
	size_t own = a->n_before + query;
	const float *v = s->v.values + kv_head * a->value_dim;
	double total = a->sinks ? exp((double)s->sinks.values[head]) : 0;

	for (size_t t = begin; t <= own; t++) {
		shares[t] = share_of(s, head, query, t);
		if (a->n_sets && !in_set(head / (a->n_heads / a->n_sets), own, t))
			shares[t].share = 0;
		total += shares[t].share;
	}
	for (size_t i = 0; i < a->value_dim; i++) {
		size_t at = (query * a->n_heads + head) * a->value_dim + i;
		double y = 0, bound = 0;

		for (size_t t = begin; t <= own; t++)
			y += shares[t].share / total * v[t * a->n_kv_heads * a->value_dim + i];
		for (size_t t = begin; t <= own; t++) {
			double value = fabs((double)v[t * a->n_kv_heads * a->value_dim + i]);

			bound += shares[t].share / total *
				 (shares[t].change * (value + fabs(y)) + UNIT * value);
		}
		s->y[at] = y;
		s->bound[at] = bound;
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
	uint64_t scratch = side->ops->scratch(&(const struct scratch_args){ .attention = &args });
	void *poison = host_memory_new(n + scratch);
	float *sinks = side_put(side, s->sinks.values, s->sinks.n * sizeof(float));
	size_t sets_size;
	uint32_t *sets = sets_new(&args, &sets_size);

	memset(poison, 0xFF, n + scratch);
	args.q = side_put(side, s->q.values, s->q.n * sizeof(float));
	args.k = side_put(side, s->k.values, s->k.n * sizeof(float));
	args.v = side_put(side, s->v.values, s->v.n * sizeof(float));
	args.y = side_put(side, poison, n);
	args.scratch = side_put(side, poison, scratch);
	args.sinks = args.sinks ? sinks : NULL;
	args.sets = args.n_sets ? side_put(side, sets, sets_size) : NULL;
	side->ops->attention(side->stream, &args);
	check(side, s, args.y);
	side->ops->memory_free(side->executor, (void *)args.q);
	side->ops->memory_free(side->executor, (void *)args.k);
	side->ops->memory_free(side->executor, (void *)args.v);
	side->ops->memory_free(side->executor, args.scratch);
	side->ops->memory_free(side->executor, sinks);
	side->ops->memory_free(side->executor, (void *)args.sets);
	free(poison);
	free(sets);
}

/* factor: of keys and values, and of the scale in the other direction; first: of the first key and
 * its value. */
static void attend_everywhere(const struct attention_args *args, float factor, float first)
{
	size_t n = args->n_tokens, heads = args->n_heads, kv_heads = args->n_kv_heads;
	size_t n_keys = attention_n_keys(args);
	struct setup s = { .args = *args,
			   .q = array_new(n * heads * args->head_dim, 2),
			   .k = array_new(n_keys * kv_heads * args->head_dim, 2 * factor),
			   .v = array_new(n_keys * kv_heads * args->value_dim, 3 * factor),
			   .sinks = array_new(heads, 6) };
	struct share *shares = host_memory_new(n_keys * sizeof *shares);

	for (size_t i = 0; i < kv_heads * args->head_dim; i++)
		s.k.values[i] *= first;
	for (size_t i = 0; i < kv_heads * args->value_dim; i++)
		s.v.values[i] *= first;
	s.args.f16 = true;
	s.args.scale /= factor;
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

static void long_attention_is_within_its_bound(void **state)
{
	static const float any = 0; /* sinks: the setup's */
	const struct attention_args cases[] = {
		{ 1025, 2, 1, 64, 64, 0, .scale = 0.3f },
		{ 1152, 1, 1, 33, 17, 0, .scale = 0.5f },
		{ 1153, 1, 1, 64, 64, 70, .scale = 0.5f, .sinks = &any },
		{ 1100, 2, 2, 128, 128, 0, .scale = 0.2f, .softcap = 4 },
		{ 1100, 1, 1, 64, 128, 1, .scale = 1 },
		{ 1100, 3, 1, 80, 80, 128, .scale = 0.3f },
		{ 1279, 1, 1, 192, 128, 257, .scale = 0.15f, .sinks = &any },
		{ 1100, 1, 1, 256, 256, 300, .scale = 0.1f },
		{ 1100, 2, 2, 64, 64, 0, .scale = 0.3f, .n_sets = 2 },
		{ 1131, 2, 1, 192, 128, 0, .scale = 0.15f, .n_sets = 1 },
		{ 1100, 2, 1, 48, 96, 0, .scale = 0.3f, .n_sets = 1, .n_before = 70 },
		{ 1040, 1, 1, 1, 3, 1000, .scale = 3 },
		{ 1030, 1, 1, 257, 2, 100, .scale = 0.1f },
	};

	(void)state;
	for (size_t i = 0; i < (sides_small ? 3 : N_OF(cases)); i++)
		attend_everywhere(&cases[i], 1, 1);
}

/* Keys and values beyond the range of fp16 on both sides. */
static void no_value_leaves_the_range_of_fp16(void **state)
{
	const struct attention_args args = { 1025, 1, 1, 64, 64, 200, .scale = 0.3f };

	(void)state;
	attend_everywhere(&args, 1e12f, 1);
	attend_everywhere(&args, 1e-12f, 1);
}

/* Queries see the first key long before their own: its exponential is beyond the range of fp32
 * relative to later keys' values, and it alone decides the scale of the head's keys. */
static void a_first_key_may_outweigh_all(void **state)
{
	const struct attention_args args = { 1025, 1, 1, 3, 64, 0, .scale = 0.1f };

	(void)state;
	attend_everywhere(&args, 1, 500);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(long_attention_is_within_its_bound),
					    cmocka_unit_test(no_value_leaves_the_range_of_fp16),
					    cmocka_unit_test(a_first_key_may_outweigh_all) };

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
