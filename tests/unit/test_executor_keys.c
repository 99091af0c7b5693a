/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: the choice of keys, bit for bit against sorted scores of plain loops, on the
 * executor of every backend.
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

struct setup {
	struct choose_keys_args args;
	struct values q, k, weights;
	uint32_t *sets; /* wanted; to be freed */
	size_t sets_size;
};

/* A block of keys that a query may have. */
struct block {
	size_t number;
	float score;
};

/* The largest score first, of equal ones the first block. */
static int block_order(const void *left, const void *right)
{
	const struct block *a = left, *b = right;

	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

static float plain_score(const struct choose_keys_args *a, size_t head, size_t query, size_t key)
{
	const float *q = a->q + (query * a->n_heads + head) * a->head_dim;
	const float *k = a->k + key * a->head_dim;
	float sum = 0;

	for (size_t i = 0; i < a->head_dim; i++)
		sum = fmaf(q[i], k[i], sum);
	return sum;
}

/* The score of a key in a set: of one head, or of all. */
static float plain_sum(const struct choose_keys_args *a, size_t set, size_t query, size_t key)
{
	float sum = 0;

	if (!a->weights && !a->together)
		return plain_score(a, set, query, key);
	for (size_t head = 0; head < a->n_heads; head++) {
		float score = plain_score(a, head, query, key);
		float weight = a->weights ? a->weights[query * a->n_heads + head] : 1;

		sum = fmaf(weight, score > 0 ? score : 0, sum);
	}
	return sum;
}

static void plain_query(const struct choose_keys_args *a, size_t set, size_t query,
			struct block *blocks)
{
	size_t own = query / a->block_size, n_words = KEY_WORDS(a->n_pools + a->n_tokens);
	uint32_t *words = a->sets + (set * a->n_tokens + query) * n_words;

	for (size_t i = 0; i <= own; i++)
		blocks[i] = (struct block){ i, -INFINITY };
	for (size_t key = 0; key <= query; key++)
		blocks[key / a->block_size].score =
			fmaxf(blocks[key / a->block_size].score, plain_sum(a, set, query, key));
	for (size_t i = 0; i < a->n_local && i <= own; i++)
		blocks[own - i].score = INFINITY;
	qsort(blocks, own + 1, sizeof *blocks, block_order);
	memset(words, 0, n_words * sizeof *words);
	for (size_t i = 0; i <= own && i < a->n_chosen; i++)
		for (size_t key = blocks[i].number * a->block_size;
		     key <= query && key < (blocks[i].number + 1) * a->block_size; key++)
			words[key / 32] |= UINT32_C(1) << key % 32;
}

static size_t n_words_of(const struct choose_keys_args *a)
{
	return KEY_WORDS(a->n_tokens + (a->of_tokens ? 0 : a->n_pools));
}

/* The tokens of the pools that are chosen for a query, and those that are in no whole pool. */
static void plain_tokens(const struct choose_keys_args *a, size_t query, const struct block *blocks,
			 size_t n_pools)
{
	uint32_t *words = a->sets + query * n_words_of(a);

	for (size_t token = 0; token <= query; token++) {
		bool has = token >= n_pools * a->pool_size;

		for (size_t i = 0; i < n_pools && i < a->n_chosen; i++)
			has = has || blocks[i].number == token / a->pool_size;
		words[token / 32] |= (uint32_t)has << token % 32;
	}
}

/* Of the pools that end with the query or before it, and then its window. */
static void plain_pools(const struct choose_keys_args *a, size_t query, struct block *blocks)
{
	size_t n = 0, n_words = n_words_of(a);
	uint32_t *words = a->sets + query * n_words;

	while (n < a->n_pools && n * a->pool_size + a->pool_size - 1 <= query) {
		blocks[n] = (struct block){ n, a->n_heads ? plain_sum(a, 0, query, n) : 0 };
		n++;
	}
	qsort(blocks, n, sizeof *blocks, block_order);
	memset(words, 0, n_words * sizeof *words);
	if (a->of_tokens) {
		plain_tokens(a, query, blocks, n);
		return;
	}
	for (size_t i = 0; i < n && i < a->n_chosen; i++)
		words[blocks[i].number / 32] |= UINT32_C(1) << blocks[i].number % 32;
	for (size_t token = 0; token <= query; token++)
		if (!a->window || query - token < a->window)
			words[(a->n_pools + token) / 32] |= UINT32_C(1)
							    << (a->n_pools + token) % 32;
}

static void plain_choice(const struct choose_keys_args *a)
{
	struct block *blocks = host_memory_new(a->n_tokens * sizeof *blocks);

	for (size_t set = 0; set < choose_keys_n_sets(a); set++)
		for (size_t query = 0; query < a->n_tokens; query++)
			if (a->pool_size)
				plain_pools(a, query, blocks);
			else
				plain_query(a, set, query, blocks);
	free(blocks);
}

/* coarse: of q and k that are -1, 0 or 1, many scores are equal. */
static struct setup setup_new(const struct choose_keys_args *args, bool weighted, bool coarse)
{
	size_t n = args->n_tokens;
	struct setup s = { .args = *args,
			   .q = values_new(n * args->n_heads * args->head_dim, 0),
			   .k = values_new(choose_keys_n_keys(args) * args->head_dim, 0),
			   .weights = values_new(n * args->n_heads, 0) };

	for (size_t i = 0; coarse && i < s.q.n; i++)
		values_set(&s.q, i, rintf(s.q.given[i] / 3));
	for (size_t i = 0; coarse && i < s.k.n; i++)
		values_set(&s.k, i, rintf(s.k.given[i] / 3));
	for (size_t i = 0; coarse && i < s.weights.n; i++)
		values_set(&s.weights, i, rintf(s.weights.given[i]));
	s.args.q = s.q.given;
	s.args.k = s.k.given;
	s.args.weights = weighted ? s.weights.given : NULL;
	s.sets_size = choose_keys_n_sets(&s.args) * n * n_words_of(args) * sizeof *s.sets;
	s.sets = s.args.sets = host_memory_new(s.sets_size);
	plain_choice(&s.args);
	return s;
}

static void setup_free(struct setup *s)
{
	values_free(&s->q);
	values_free(&s->k);
	values_free(&s->weights);
	free(s->sets);
}

/* Memory of bytes 0xFF: what is read there has been written. */
static void *poison_there(const struct side *s, size_t size)
{
	void *poison = host_memory_new(size), *there;

	memset(poison, 0xFF, size);
	there = side_put(s, poison, size);
	free(poison);
	return there;
}

static void choose_there(const struct side *s, const struct setup *setup)
{
	struct choose_keys_args args = setup->args;
	float *q = values_send(s, &setup->q), *k = values_send(s, &setup->k);
	float *weights = values_send(s, &setup->weights);
	uint32_t *found = host_memory_new(setup->sets_size);

	args.q = q;
	args.k = k;
	args.weights = args.weights ? weights : NULL;
	args.sets = poison_there(s, setup->sets_size);
	args.scratch =
		poison_there(s, s->ops->scratch(&(const struct scratch_args){ .keys = &args }));
	s->ops->choose_keys(s->stream, &args);
	side_take(s, args.sets, found, setup->sets_size);
	for (size_t i = 0; i < setup->sets_size / sizeof *found; i++)
		if (found[i] != setup->sets[i])
			fail_msg("%s: %zu tokens, word %zu: %08x, not %08x", s->ops->name,
				 args.n_tokens, i, found[i], setup->sets[i]);
	values_check(s, &setup->q, q, "q");
	values_check(s, &setup->k, k, "k");
	values_check(s, &setup->weights, weights, "weights");
	s->ops->memory_free(s->executor, args.scratch);
	free(found);
}

static void choose_everywhere(const struct choose_keys_args *args, bool weighted, bool coarse)
{
	struct setup setup = setup_new(args, weighted, coarse);

	EACH_SIDE(s)
	choose_there(s, &setup);
	setup_free(&setup);
}

/* Tokens below, at and above words, tiles and blocks; with equal scores, too. */
static void choices_equal_sorted_scores(void **state)
{
	static const struct choose_keys_args cases[] = {
		{ .n_tokens = 1, .n_heads = 1, .head_dim = 4, .block_size = 1, .n_chosen = 1 },
		{ .n_tokens = 31, .n_heads = 3, .head_dim = 5, .block_size = 1, .n_chosen = 7 },
		{ .n_tokens = 64, .n_heads = 2, .head_dim = 33, .block_size = 1, .n_chosen = 64 },
		{ .n_tokens = 65, .n_heads = 5, .head_dim = 32, .block_size = 1, .n_chosen = 20 },
		{ .n_tokens = 200, .n_heads = 4, .head_dim = 8, .block_size = 1, .n_chosen = 50 },
		{ .n_tokens = 32, .n_heads = 2, .head_dim = 6, .block_size = 4, .n_chosen = 3 },
		{ .n_tokens = 97, .n_heads = 3, .head_dim = 9, .block_size = 16, .n_chosen = 2 },
		{ .n_tokens = 150, .n_heads = 1, .head_dim = 7, .block_size = 33, .n_chosen = 3 },
		{ .n_tokens = 40, .n_heads = 1, .head_dim = 7, .block_size = 99, .n_chosen = 9 },
		{ .n_tokens = 0, .n_heads = 1, .head_dim = 7, .block_size = 1, .n_chosen = 9 },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(cases) * 12; i++) {
		struct choose_keys_args args = cases[i / 12];

		args.n_local = i % 3;
		choose_everywhere(&args, i / 3 % 2, i / 6 % 2);
	}
}

/* Pools of one token and of several, the last of which may not be whole; without heads the first
 * pools are as good as others. */
static void pools_equal_sorted_scores(void **state)
{
	static const struct choose_keys_args cases[] = {
		{ .n_tokens = 3, .n_heads = 2, .head_dim = 4, .n_chosen = 1, .pool_size = 3 },
		{ .n_tokens = 70, .n_heads = 3, .head_dim = 8, .n_chosen = 5, .pool_size = 4 },
		{ .n_tokens = 131, .n_heads = 2, .head_dim = 5, .n_chosen = 9, .pool_size = 1 },
		{ .n_tokens = 300, .n_heads = 4, .head_dim = 9, .n_chosen = 20, .pool_size = 4 },
		{ .n_tokens = 300, .n_heads = 0, .head_dim = 9, .n_chosen = 23, .pool_size = 13 },
		{ .n_tokens = 90, .n_heads = 0, .head_dim = 9, .n_chosen = 4, .pool_size = 2 },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(cases) * 6; i++) {
		struct choose_keys_args args = cases[i / 6];

		args.block_size = 1;
		args.n_pools = args.n_tokens / args.pool_size;
		args.window = i % 3 * 20;
		choose_everywhere(&args, args.n_heads > 0, i / 3 % 2);
	}
}

/* Sets of the tokens of pools; heads have weights, or all the same. */
static void tokens_of_pools_equal_sorted_scores(void **state)
{
	static const struct choose_keys_args cases[] = {
		{ .n_tokens = 5, .n_heads = 2, .head_dim = 4, .n_chosen = 1, .pool_size = 3 },
		{ .n_tokens = 70, .n_heads = 3, .head_dim = 8, .n_chosen = 5, .pool_size = 4 },
		{ .n_tokens = 131, .n_heads = 2, .head_dim = 5, .n_chosen = 9, .pool_size = 1 },
		{ .n_tokens = 300, .n_heads = 4, .head_dim = 9, .n_chosen = 7, .pool_size = 16 },
		{ .n_tokens = 256, .n_heads = 1, .head_dim = 9, .n_chosen = 3, .pool_size = 32 },
		{ .n_tokens = 201, .n_heads = 2, .head_dim = 9, .n_chosen = 2, .pool_size = 67 },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(cases) * 4; i++) {
		struct choose_keys_args args = cases[i / 4];

		args.block_size = 1;
		args.n_pools = args.n_tokens / args.pool_size;
		args.of_tokens = args.together = true;
		choose_everywhere(&args, i % 2, i / 2 % 2);
	}
}

/* Scores below 0, of which the executor may compare the bits, and more queries than fit at once. */
static void long_sequences_have_the_same_choices(void **state)
{
	struct choose_keys_args args = {
		.n_tokens = 4162, .n_heads = 1, .head_dim = 2, .block_size = 1, .n_chosen = 2048
	};

	(void)state;
	if (sides_small)
		return;
	choose_everywhere(&args, false, false);
	args.block_size = 128;
	args.n_chosen = 16;
	args.n_local = 1;
	choose_everywhere(&args, false, false);
}

/* Room for a long sequence is enough for a shorter one. */
static void scratch_of_a_long_sequence_serves_a_shorter_one(void **state)
{
	(void)state;
	EACH_SIDE(s)
	{
		struct choose_keys_args args = { .n_heads = 64, .head_dim = 128, .block_size = 1 };
		uint64_t before = 0;

		for (; args.n_tokens <= 8192; args.n_tokens += 31) {
			const struct scratch_args all = { .keys = &args };

			assert_true(s->ops->scratch(&all) >= before);
			before = s->ops->scratch(&all);
		}
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choices_equal_sorted_scores),
		cmocka_unit_test(pools_equal_sorted_scores),
		cmocka_unit_test(tokens_of_pools_equal_sorted_scores),
		cmocka_unit_test(long_sequences_have_the_same_choices),
		cmocka_unit_test(scratch_of_a_long_sequence_serves_a_shorter_one),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
