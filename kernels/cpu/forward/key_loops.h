/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of keys, query by query, compiled once for each instruction set, as ops_loops.h is.
 * Attention makes its scores in the same way (attention_loops.h).
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_KEY_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_KEY_LOOPS_H

#include "kernels/cpu/forward/attention_loops.h"

/* What the queries of all heads share. */
struct key_choice {
	const struct choose_keys_args *args;
	struct attention attention; /* the keys, and the scores of one head */
	float *totals;		    /* scratch: (ATTENTION_QUERIES, attention_score_stride()) */
	uint32_t *ranks;	    /* scratch: (keys) */
};

/* Returns how many of n ranks are at least `rank`. */
static size_t count_from(const uint32_t *ranks, size_t n, uint32_t rank)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ranks[i] >= rank;
	return count;
}

/* Returns the rank of the n_chosen-th largest of n, bit by bit. */
static uint32_t rank_of_last(const uint32_t *ranks, size_t n, size_t n_chosen)
{
	uint32_t last = 0;

	for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1)
		if (count_from(ranks, n, last | bit) >= n_chosen)
			last |= bit;
	return last;
}

/* Adds keys [first, end) to a set. */
static void add_keys(uint32_t *set, size_t first, size_t end)
{
	for (size_t s = first; s < end; s++)
		set[s / 32] |= UINT32_C(1) << s % 32;
}

/* Adds the tokens that a query has whatever its scores: of its window, behind the pools; or those
 * behind the last whole pool. */
static void add_own_tokens(const struct choose_keys_args *a, size_t query, uint32_t *set)
{
	size_t first = a->window && query + 1 > a->window ? query + 1 - a->window : 0;

	if (a->of_tokens)
		add_keys(set, choose_keys_n_of(a, query) * a->pool_size, query + 1);
	else
		add_keys(set, a->n_pools + first, a->n_pools + query + 1);
}

/* Chooses the keys of a query by their scores. */
static void choose_by(const struct key_choice *c, const float *scores, size_t query, uint32_t *set)
{
	const struct choose_keys_args *a = c->args;
	size_t n = choose_keys_n_blocks(a, query);
	size_t n_chosen = a->n_chosen < n ? a->n_chosen : n, n_equal = n_chosen;
	size_t size = a->of_tokens ? a->pool_size : 1; /* tokens of a key */
	uint32_t last;

	for (size_t i = 0; i < n; i++)
		c->ranks[i] = choose_keys_rank(a, scores, i, query);
	last = rank_of_last(c->ranks, n, n_chosen);
	if (last < UINT32_MAX)
		n_equal -= count_from(c->ranks, n, last + 1);
	memset(set, 0, KEY_WORDS(choose_keys_n_bits(a)) * sizeof *set);
	for (size_t i = 0; i < n; i++) {
		if (c->ranks[i] < last || (c->ranks[i] == last && !n_equal))
			continue;
		n_equal -= c->ranks[i] == last;
		add_keys(set, i * a->block_size * size, choose_keys_end(a, i, query) * size);
	}
	if (a->pool_size)
		add_own_tokens(a, query, set);
}

/* Adds the scores of a head to the totals of a block of queries. */
static void add_head(const struct key_choice *c, const struct query_block *b, size_t head)
{
	const struct choose_keys_args *a = c->args;
	size_t stride = attention_score_stride(choose_keys_n_keys(a));

	for (size_t row = 0; row < b->n; row++) {
		size_t at = (b->first + row) * a->n_heads + head;
		lanes weight = lanes_all(a->weights ? a->weights[at] : 1);
		const float *scores = c->attention.scores + row * stride;
		float *totals = c->totals + row * stride;

		for (size_t s = 0; s < choose_keys_n_of(a, b->first + row); s += LANES) {
			lanes score = lanes_larger(lanes_load(scores + s), lanes_all(0));
			lanes total = head ? lanes_load(totals + s) : lanes_all(0);

			lanes_store(totals + s, lanes_multiply_add(weight, score, total));
		}
	}
}

/* Chooses the keys of a block of queries in set number `set`. */
static void choose_rows(const struct key_choice *c, const struct query_block *b, size_t set,
			const float *scores)
{
	size_t n_words = KEY_WORDS(choose_keys_n_bits(c->args));
	size_t first = set * c->args->n_tokens + b->first;
	size_t stride = attention_score_stride(choose_keys_n_keys(c->args));

	for (size_t row = 0; row < b->n; row++)
		choose_by(c, scores + row * stride, b->first + row,
			  c->args->sets + (first + row) * n_words);
}

static void choose_block(const struct key_choice *c, size_t first)
{
	const struct choose_keys_args *a = c->args;
	size_t stride = a->n_heads * a->head_dim, left = a->n_tokens - first;
	size_t n_keys = choose_keys_n_keys(a);
	struct query_block block = { .first = first,
				     .n = left < ATTENTION_QUERIES ? left : ATTENTION_QUERIES };

	for (size_t head = 0; head < a->n_heads; head++) {
		block.q = (struct rows_in){ a->q + first * stride + head * a->head_dim, stride };
		for (size_t panel = 0; panel < first + block.n && panel < n_keys; panel += PANEL)
			score_panel(&c->attention, &block, panel);
		if (choose_keys_together(a))
			add_head(c, &block, head);
		else
			choose_rows(c, &block, head, c->attention.scores);
	}
	if (!a->n_heads)
		memset(c->totals, 0,
		       ATTENTION_QUERIES * attention_score_stride(n_keys) * sizeof *c->totals);
	if (choose_keys_together(a) || !a->n_heads)
		choose_rows(c, &block, 0, c->totals);
}

static void CPU_OP(choose_keys)(const struct choose_keys_args *args)
{
	size_t n_keys = choose_keys_n_keys(args);
	size_t n_scores = ATTENTION_QUERIES * attention_score_stride(n_keys);
	float *keys = args->scratch, *scores = keys + attention_padded(n_keys) * args->head_dim;
	const struct key_choice choice = { .args = args,
					   .attention = { .n_keys = n_keys,
							  .head_dim = args->head_dim,
							  .keys = keys,
							  .scores = scores },
					   .totals = scores + n_scores,
					   .ranks = (void *)(scores + 2 * n_scores) };

	pack_keys(&choice.attention, (struct rows_in){ args->k, args->head_dim });
	for (size_t first = 0; first < args->n_tokens; first += ATTENTION_QUERIES)
		choose_block(&choice, first);
}

#endif
