/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: attention, bit for bit against plain loops over num/, on the executor of
 * every backend.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/exp.h"
#include "support/executor_sides.h"

struct keys {
	size_t begin, end;
};

static bool is_chosen(const struct attention_args *a, size_t head, size_t query, size_t key)
{
	size_t row = head / (a->n_heads / a->n_sets) * a->n_tokens + query;

	return a->sets[row * KEY_WORDS(a->n_before + a->n_tokens) + key / 32] >> key % 32 & 1;
}

/* Those that one of the queries [first, last] sees. */
static struct keys keys_of(const struct attention_args *a, size_t first, size_t last)
{
	size_t end = last < a->n_tokens ? last + 1 : a->n_tokens;

	return (struct keys){ a->window && first + 1 > a->window ? first + 1 - a->window : 0,
			      a->n_before + end };
}

/* The bias of a score by the distance of its key. */
static float plain_bias(const struct attention_args *a, size_t head, size_t query, size_t key)
{
	size_t n = a->distances.n_profiles, extent = a->distances.extent;
	float sum = 0;

	for (size_t i = 0; i < n && query - key < extent; i++)
		sum = fmaf(a->distances.weights[(query * a->n_heads + head) * n + i],
			   a->distances.profiles[i * extent + query - key], sum);
	return sum;
}

/* Scores of a query, in the order of features; returns the largest, or the sink. */
static float plain_scores(const struct attention_args *a, size_t head, size_t query,
			  struct keys keys, float *scores)
{
	size_t kv_head = head / (a->n_heads / a->n_kv_heads);
	const float *q = a->q + (query * a->n_heads + head) * a->head_dim;
	float most = -INFINITY;

	for (size_t t = keys.begin; t < keys.end; t++) {
		const float *k = a->k + (t * a->n_kv_heads + kv_head) * a->head_dim;
		float sum = 0;

		for (size_t i = 0; i < a->head_dim; i++)
			sum = fmaf(q[i], k[i], sum);
		sum *= a->scale;
		scores[t] =
			a->softcap > 0 && sum > -INFINITY ? plain_softcap(sum, a->softcap) : sum;
		if (a->distances.n_profiles)
			scores[t] += plain_bias(a, head, query, t);
		if (a->sets && !is_chosen(a, head, query, t))
			scores[t] = -INFINITY;
		most = scores[t] > most ? scores[t] : most;
	}
	return a->sinks && a->sinks[head] > most ? a->sinks[head] : most;
}

/* Four queries go through the keys that one of them sees, with shares of 0 where another one does
 * not: that tells what becomes of an infinite value, and of the sign of a zero. */
static void plain_query(const struct attention_args *a, size_t head, size_t query, float *scores,
			float *y)
{
	struct keys own = keys_of(a, query, query),
		    shared = keys_of(a, query - query % 4, query - query % 4 + 3);
	const float *v = a->v + head / (a->n_heads / a->n_kv_heads) * a->value_dim;
	float most = plain_scores(a, head, query, own, scores), lanes[16] = { 0 }, total;

	for (size_t t = shared.begin; t < shared.end; t++) {
		if (t < own.begin || t >= own.end) {
			scores[t] = 0;
			continue;
		}
		scores[t] = f32_exp(scores[t] - most);
		lanes[(t - own.begin) % 16] += scores[t];
	}
	total = plain_lanes_sum(lanes);
	if (a->sinks)
		total += f32_exp(a->sinks[head] - most);
	for (size_t i = 0; i < a->value_dim; i++) {
		float sum = 0;

		for (size_t t = shared.begin; t < shared.end; t++)
			sum = fmaf(scores[t], v[t * a->n_kv_heads * a->value_dim + i], sum);
		y[i] = 1.0f / total * sum;
	}
}

/* All of q, k, v, y and sinks, and sets where args has n_sets. */
struct setup {
	struct attention_args args;
	struct values q, k, v, y, sinks, weights, profiles;
	bool with_sinks;
	uint32_t *sets; /* to be freed */
	size_t sets_size;
};

/* Sets of some of the keys, of which one is the query's own; now and then none of 64 before. */
static void sets_choose(struct setup *s)
{
	const struct attention_args *a = &s->args;
	size_t n = a->n_before + a->n_tokens, n_words = KEY_WORDS(n);

	s->sets_size = a->n_sets * a->n_tokens * n_words * sizeof *s->sets;
	s->sets = host_memory_new(s->sets_size);
	memset(s->sets, 0, s->sets_size);
	for (size_t i = 0; i < a->n_sets * a->n_tokens; i++)
		for (size_t t = 0; t < n; t++)
			if (i % a->n_tokens + a->n_before == t ||
			    (noise_next() > 1 && (i % 3 || t / 64 % 2)))
				s->sets[i * n_words + t / 32] |= UINT32_C(1) << t % 32;
}

static struct setup setup_new(const struct attention_args *args, bool sinks, size_t shift)
{
	size_t n = args->n_tokens, n_keys = args->n_before + n;

	struct setup setup = {
		.args = *args,
		.q = values_new(n * args->n_heads * args->head_dim, shift),
		.k = values_new(n_keys * args->n_kv_heads * args->head_dim, shift),
		.v = values_new(n_keys * args->n_kv_heads * args->value_dim, shift),
		.y = values_new(n * args->n_heads * args->value_dim, shift),
		.sinks = values_new(args->n_heads, 0),
		.weights = values_new(n * args->n_heads * args->distances.n_profiles, shift),
		.profiles = values_new(args->distances.n_profiles * args->distances.extent, shift),
		.with_sinks = sinks
	};

	if (args->n_sets)
		sets_choose(&setup);
	return setup;
}

static void plain_attention(const struct setup *s)
{
	struct attention_args a = s->args;
	float *scores = host_memory_new((a.n_before + a.n_tokens) * sizeof *scores);

	a.q = s->q.given;
	a.k = s->k.given;
	a.v = s->v.given;
	a.sinks = s->with_sinks ? s->sinks.given : NULL;
	a.sets = s->sets;
	a.distances.weights = s->weights.given;
	a.distances.profiles = s->profiles.given;
	for (size_t query = 0; query < a.n_tokens; query++)
		for (size_t head = 0; head < a.n_heads; head++)
			plain_query(&a, head, query, scores,
				    s->y.wanted + (query * a.n_heads + head) * a.value_dim);
	free(scores);
}

/* Of bytes 0xFF, which are NaN: what is read there has been written. */
static void *scratch_there(const struct side *s, const struct attention_args *args)
{
	uint64_t size = s->ops->scratch(&(const struct scratch_args){ .attention = args });
	void *poison = host_memory_new(size), *there;

	memset(poison, 0xFF, size);
	there = side_put(s, poison, size);
	free(poison);
	return there;
}

static void attend_there(const struct side *s, const struct setup *setup)
{
	struct attention_args args = setup->args;
	float *q = values_send(s, &setup->q), *k = values_send(s, &setup->k),
	      *v = values_send(s, &setup->v);
	float *sinks = values_send(s, &setup->sinks);
	float *weights = values_send(s, &setup->weights);
	float *profiles = values_send(s, &setup->profiles);
	uint32_t *sets = setup->sets ? side_put(s, setup->sets, setup->sets_size) : NULL;

	args.q = q;
	args.k = k;
	args.v = v;
	args.y = values_send(s, &setup->y);
	args.sinks = setup->with_sinks ? sinks : NULL;
	args.sets = sets;
	args.distances.weights = args.distances.n_profiles ? weights : NULL;
	args.distances.profiles = profiles;
	args.scratch = scratch_there(s, &args);
	s->ops->attention(s->stream, &args);
	values_check(s, &setup->y, args.y, "attend");
	values_check(s, &setup->q, q, "q");
	values_check(s, &setup->k, k, "k");
	values_check(s, &setup->v, v, "v");
	values_check(s, &setup->sinks, sinks, "sinks");
	values_check(s, &setup->weights, weights, "weights of profiles");
	values_check(s, &setup->profiles, profiles, "profiles");
	s->ops->memory_free(s->executor, args.scratch);
	s->ops->memory_free(s->executor, sets);
}

static void attend_everywhere(struct setup *setup)
{
	plain_attention(setup);
	EACH_SIDE(s)
	attend_there(s, setup);
	values_free(&setup->q);
	values_free(&setup->k);
	values_free(&setup->v);
	values_free(&setup->y);
	values_free(&setup->sinks);
	values_free(&setup->weights);
	values_free(&setup->profiles);
	free(setup->sets);
}

static void attention_equals_plain_loops(void **state)
{
	static const struct attention_args cases[] = {
		{ 1, 1, 1, 4, 4, 0, .scale = 0.125f },
		{ 3, 4, 4, 64, 64, 0, .scale = 0.125f },
		{ 15, 4, 1, 16, 16, 0, .scale = 0.2f },
		{ 16, 2, 1, 15, 17, 0, .scale = 0.2f },
		{ 17, 4, 2, 1, 1, 0, .scale = 1 },
		{ 63, 1, 1, 33, 65, 0, .scale = 0.125f },
		{ 64, 1, 1, 64, 64, 0, .scale = 0.125f },
		{ 65, 2, 2, 64, 128, 0, .scale = 0.125f },
		{ 67, 1, 1, 12, 80, 99, .scale = 0.125f },
		{ 90, 4, 2, 32, 32, 9, .scale = 0.125f, .softcap = 2 },
		{ 99, 2, 1, 64, 32, 0, .scale = 0.125f, .softcap = 3.5f },
		{ 127, 4, 1, 32, 12, 0, .scale = 0.3f },
		{ 130, 2, 1, 80, 24, 0, .scale = 0.125f },
		{ 150, 2, 2, 16, 16, 70, .scale = 0.2f },
		{ 150, 1, 1, 16, 16, 1, .scale = 0.2f },
		{ 150, 1, 1, 16, 16, 16, .scale = 0.2f },
		{ 150, 1, 1, 16, 16, 64, .scale = 0.2f },
		{ 200, 6, 2, 64, 64, 7, .scale = 0.125f },
		{ 1, 2, 2, 16, 16, 0, .scale = 0.125f, .n_sets = 1 },
		{ 33, 2, 1, 16, 16, 0, .scale = 0.125f, .n_sets = 2 },
		{ 90, 4, 2, 32, 32, 9, .scale = 0.125f, .softcap = 2, .n_sets = 2 },
		{ 131, 2, 2, 24, 16, 0, .scale = 0.2f, .n_sets = 1 },
		{ 200, 6, 2, 64, 64, 0, .scale = 0.125f, .n_sets = 3 },
		{ 1, 2, 1, 16, 16, 0, .scale = 0.125f, .n_sets = 1, .n_before = 1 },
		{ 90, 4, 1, 32, 32, 0, .scale = 0.2f, .n_sets = 1, .n_before = 22 },
		{ 131, 2, 2, 24, 16, 0, .scale = 0.2f, .n_sets = 2, .n_before = 64 },
		{ 70, 2, 1, 80, 80, 0, .scale = 0.1f, .n_sets = 1, .n_before = 150 },
		{ 1, 2, 1, 16, 16, 0, .scale = 0.1f, .distances = { NULL, NULL, 1, 1 } },
		{ 90, 4, 2, 32, 16, 0, .scale = 0.1f, .distances = { NULL, NULL, 5, 21 } },
		{ 131, 2, 2, 20, 20, 19, .scale = 0.1f, .distances = { NULL, NULL, 16, 19 } },
		{ 150, 6, 3, 24, 24, 30, .scale = 0.1f, .distances = { NULL, NULL, 3, 200 } },
		{ 70, 2, 1, 16, 16, 0, .scale = 1, .softcap = 2,
		  .distances = { NULL, NULL, 2, 64 } },
		{ 99, 2, 1, 16, 16, 0, .scale = 1, .n_sets = 2,
		  .distances = { NULL, NULL, 4, 33 } },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(cases) * 3; i++) {
		struct setup setup = setup_new(&cases[i / 3], i % 3 == 1, i % 3 == 2);

		attend_everywhere(&setup);
	}
}

/* Numbers that are none, and keys that nobody is like. */
static void nonfinite_scores_equal_plain_loops(void **state)
{
	const struct attention_args args = { 90, 2, 1, 16, 16, 0, .scale = 1, .softcap = 5 };
	static const float special[] = { NAN, INFINITY, -INFINITY, 1e30f };

	(void)state;
	for (size_t i = 0; i < N_OF(special); i++) {
		struct setup setup = setup_new(&args, i % 2, 0);

		values_set(&setup.k, 37 * 16 + 3, special[i]);
		values_set(&setup.v, 71 * 16 + 5, special[i]);
		values_set(&setup.q, 11 * 32 + 7, special[i]);
		attend_everywhere(&setup);
	}
}

/* More queries than an executor takes at once. */
static void more_queries_than_fit_give_the_same_bits(void **state)
{
	const struct attention_args args = { 4162, 1, 1, 4, 4, 70, .scale = 0.5f };
	struct setup setup;

	(void)state;
	if (sides_small)
		return;
	setup = setup_new(&args, false, 0);
	attend_everywhere(&setup);
}

/* Room for a long sequence is enough for a shorter one. */
static void scratch_of_a_long_sequence_serves_a_shorter_one(void **state)
{
	struct attention_args args = { 1, 1, 1, 64, 64, 0, .scale = 1 };

	(void)state;
	EACH_SIDE(s)
	{
		for (args.n_heads = 1; args.n_heads <= 128; args.n_heads *= 2) {
			uint64_t before = 0;

			for (args.n_tokens = 0; args.n_tokens <= 8192; args.n_tokens += 31) {
				assert_true(s->ops->scratch(&(const struct scratch_args){
						    .attention = &args }) >= before);
				before = s->ops->scratch(
					&(const struct scratch_args){ .attention = &args });
			}
		}
	}
}

static void no_tokens_write_nothing(void **state)
{
	struct values x = values_new(16, 0);

	(void)state;
	EACH_SIDE(s)
	{
		float *there = values_send(s, &x);
		struct attention_args args = { .n_heads = 1,
					       .n_kv_heads = 1,
					       .head_dim = 4,
					       .value_dim = 4,
					       .scale = 1,
					       .q = there,
					       .k = there,
					       .v = there,
					       .y = there };

		args.scratch = scratch_there(s, &args);
		s->ops->attention(s->stream, &args);
		values_check(s, &x, there, "no tokens");
		s->ops->memory_free(s->executor, args.scratch);
	}
	values_free(&x);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention_equals_plain_loops),
		cmocka_unit_test(nonfinite_scores_equal_plain_loops),
		cmocka_unit_test(more_queries_than_fit_give_the_same_bits),
		cmocka_unit_test(scratch_of_a_long_sequence_serves_a_shorter_one),
		cmocka_unit_test(no_tokens_write_nothing),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
