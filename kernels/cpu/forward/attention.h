/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, head by head: what its loops (attention_loops.h, compiled for each instruction set)
 * and its products share.
 *
 * The products are fused multiply-adds of F32 (attention_loops.h), or, where 11 bits are enough,
 * sums of three products of bf16 in Intel's tiles (avx512/attention.c).
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_ATTENTION_H
#define FP8CONV_KERNELS_CPU_FORWARD_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"

#define ATTENTION_PANEL	  64 /* tokens whose keys are packed together */
#define ATTENTION_QUERIES 64 /* most queries of a block */
#define ATTENTION_STEP	  32 /* keys, or features, that a product of bf16 takes at once */

/* Returns value_dim rounded up to whole vectors. */
static inline size_t attention_value_stride(size_t value_dim)
{
	return (value_dim + 15) / 16 * 16;
}

/* Returns head_dim rounded up to whole steps. */
static inline size_t attention_head_stride(size_t head_dim)
{
	return (head_dim + ATTENTION_STEP - 1) / ATTENTION_STEP * ATTENTION_STEP;
}

/* Returns n_tokens rounded up to whole panels. */
static inline size_t attention_padded(size_t n_tokens)
{
	return (n_tokens + ATTENTION_PANEL - 1) / ATTENTION_PANEL * ATTENTION_PANEL;
}

/* Returns the stride of rows of scores; not a power of two, which would map rows to the same cache
 * lines. */
static inline size_t attention_score_stride(size_t n_tokens)
{
	return attention_padded(n_tokens) + 16;
}

/* Returns the floats of the biases of n scores, up to whole vectors. */
static inline size_t attention_bias_row(size_t n)
{
	return (n + 15) / 16 * 16;
}

/* The scratch memory of attention, in floats: the packed keys and values of one head, the packed
 * queries of a block, their scores and sums of values, the biases of a query, and the steps of
 * keys that some queries need. */
struct attention_scratch {
	size_t keys, values, queries, scores, attn_out, biases, steps;
};

static inline struct attention_scratch attention_scratch_of(const struct attention_args *args)
{
	size_t n_keys = attention_n_keys(args), n_padded = attention_padded(n_keys);
	size_t head_stride = attention_head_stride(args->head_dim);
	size_t value_stride = attention_value_stride(args->value_dim);

	return (struct attention_scratch){
		.keys = n_padded * head_stride,
		.values = n_padded * value_stride,
		.queries = ATTENTION_QUERIES * head_stride,
		.scores = ATTENTION_QUERIES * attention_score_stride(n_keys),
		.attn_out = ATTENTION_QUERIES * value_stride,
		.biases = attention_bias_row(n_keys),
		.steps = n_padded / ATTENTION_STEP,
	};
}

static inline size_t attention_scratch_floats(const struct attention_args *args)
{
	struct attention_scratch scratch = attention_scratch_of(args);

	return scratch.keys + scratch.values + scratch.queries + scratch.scores + scratch.attn_out +
	       scratch.biases + scratch.steps;
}

/* The changes to scores before their exponentials. */
struct softmax {
	float scale;
	float softcap; /* then softcap tanh(score / softcap); 0: no cap */
	/* one more score, which adds to the sum and has no value; NULL: none */
	const float *sink;
	/* of each score, up to whole vectors: is added behind the cap; NULL: none */
	const float *bias;
};

/* Biases by distance of one head: as in struct attention_args, of its first query. */
struct distance_biases {
	const float *weights; /* rows are `stride` elements apart; NULL: none */
	const float *profiles;
	size_t stride, n_profiles, extent;
	float *row; /* scratch: attention_bias_row() */
};

/* The causal attention of one head: a query attends to its own key and those before it. */
struct attention {
	size_t n_keys, head_dim, value_dim;
	size_t n_before;      /* keys before that of the first query */
	size_t window;	      /* keys that a query attends to; 0: all */
	const uint32_t *sets; /* of each query: KEY_WORDS(n_keys); NULL: all keys */
	struct softmax softmax;
	struct distance_biases distances;
	/* scratch: struct attention_scratch; scores have attention_score_stride(), attn_out
	 * attention_value_stride() */
	float *keys, *values, *queries, *scores, *attn_out;
	uint32_t *steps;
};

/* The queries with the own keys [first, first + n), n <= ATTENTION_QUERIES, and their results. */
struct query_block {
	size_t first, n;
	struct rows_in q;  /* (n, head_dim) */
	struct rows_out y; /* (n, value_dim) */
};

/* How the products of attention are computed. */
struct attention_products {
	/* Packs the keys (n_keys, head_dim) and the values (n_keys, value_dim) of a head. */
	void (*pack)(const struct attention *a, struct rows_in k, struct rows_in v);

	/* Computes the scores of a block.  One that none of the queries beside it needs may have
	 * any value. */
	void (*score)(const struct attention *a, const struct query_block *b);

	/* Computes attn_out from the exponentials that have replaced the scores, and may write to
	 * those. */
	void (*mix)(const struct attention *a, const struct query_block *b);
};

/* The products of bf16; NULL: this processor has no tiles for them. */
const struct attention_products *attention_by_tiles(void);

/* Returns the first key that a query attends to. */
static inline size_t attention_first_key(const struct attention *a, size_t query)
{
	return a->window && query + 1 > a->window ? query + 1 - a->window : 0;
}

/* A few queries of a block that are multiplied at once: `n` from `row` on.  At least one of them
 * attends to each of the keys [begin, end), but for those that no set holds. */
struct queries {
	size_t row, n, begin, end;
};

static inline struct queries attention_queries(const struct attention *a,
					       const struct query_block *b, size_t row, size_t most)
{
	size_t n = b->n - row < most ? b->n - row : most;

	return (struct queries){ row, n, attention_first_key(a, b->first + row),
				 b->first + row + n };
}

/* Returns the set of a query of a block, by its row. */
static inline const uint32_t *attention_set(const struct attention *a, const struct query_block *b,
					    size_t row)
{
	return a->sets + (b->first - a->n_before + row) * KEY_WORDS(a->n_keys);
}

/* Returns false if no query attends to one of the keys [key, key + n), which are whole words of
 * sets. */
static inline bool attention_needs(const struct attention *a, const struct query_block *b,
				   const struct queries *queries, size_t key, size_t n)
{
	uint32_t any = 0;

	if (key >= queries->end || key + n <= queries->begin)
		return false;
	if (!a->sets)
		return true;
	for (size_t row = queries->row; row < queries->row + queries->n; row++) {
		const uint32_t *set = attention_set(a, b, row);

		for (size_t s = key; s < key + n && s < a->n_keys; s += 32)
			any |= set[s / 32];
	}
	return any;
}

#endif
