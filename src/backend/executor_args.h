/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the operations of executor.h.  All pointers are of the executor's memory.
 * Matrices are row-major without gaps between rows, unless a stride (in elements) is given.
 */
#ifndef FP8CONV_BACKEND_EXECUTOR_ARGS_H
#define FP8CONV_BACKEND_EXECUTOR_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/activation.h"
#include "num/bits.h"
#include "num/dtype.h"
#include "num/qspec.h"

struct executor_weight;

/* y = x w^T, accumulated in fp32, by all rows of the weight, or those of a panel. */
struct multiply_args {
	const struct executor_weight *weight;
	const void *x; /* (m, k), of weight->dtype */
	size_t m;
	float *y;	     /* (m, n), or (m, executor_weight_panel_rows()) */
	const size_t *panel; /* NULL: all panels */
	/* of executors that are `grouped`: a row of y has the same bits for any m and any other
	 * rows of x, by one algorithm for each (n, k), which splits no sum over k by m */
	bool grouped;
};

/* The sums of products of inputs with each other, for a Hessian: h += x^T x, in the columns [first,
 * first + n) and the rows [0, first + n) of h.  These panels of all columns together are the upper
 * triangle, and parts of the lower one. */
struct gram_args {
	const void *x;	  /* (m, k), of dtype */
	enum dtype dtype; /* BF16 or F32 */
	size_t m, k;
	size_t first, n; /* first + n is at most k */
	float *h;	 /* (k, k) */
};

/* Statistics of values: max |x| (ignores NaN, counts inf), and the number of NaN and inf.  A zeroed
 * struct is of no values.  Operations add to it. */
struct value_stats {
	uint64_t n_nonfinite;
	float amax;
	uint32_t padding;
};

/* Adds x to *stats, and counts each value in counts[2 * (bits of |x| >> 20)]: the bin is the
 * exponent and 3 bits of the mantissa. */
struct measure_args {
	const float *x; /* (n) */
	size_t n;
	struct value_stats *stats; /* NULL: none */
	uint64_t *counts;	   /* (4096), of which every second one is used; NULL: none */
};

/* Rows to read, which begin `stride` elements apart. */
struct rows_in {
	const float *data;
	size_t stride;
};

/* Rows to write, which begin `stride` elements apart. */
struct rows_out {
	float *data;
	size_t stride;
};

#define NO_SLOT SIZE_MAX

/* Where rows of several sequences, sorted by expert, add their values.  A segment is the rows of
 * one expert and one sequence; segment e * n_sequences + s is that of expert e and sequence s.  It
 * adds its values to stats[segment][slot]; slot NO_SLOT: to none. */
struct row_stats {
	struct value_stats *const *stats; /* (n_segments); each begins its segment's slots */
	const uint32_t *segments;	  /* (n_rows) */
};

/* The input of a product, made of a result in the same operation: the result is rounded to bf16,
 * and the rounded values are added to *stats.  stats NULL: nothing of this is done. */
struct rounded_out {
	struct value_stats *stats;
	uint16_t *codes; /* (n_rows, n_cols): written, the values as bf16; NULL: none */
};

/* y = bf16(x), to nearest even, in fp32; y may be x, or NULL. */
struct round_args {
	const float *x; /* (n) */
	size_t n;
	float *y;
	struct rounded_out rounded; /* (n) codes; stats NULL: codes alone are written */
};

/* x += y, each row of x. */
struct add_args {
	float *x;	/* (n_rows, n) */
	const float *y; /* (n) */
	size_t n_rows, n;
	struct value_stats *y_stats; /* y is added to them; NULL: none, or n_rows is not 1 */
};

/* y = activation(gate) * up (num/activation.h), or without up y = activation(gate), with no stats
 * and not rounded.  y may be gate or up if their strides are equal.  With a limit, activation(gate)
 * is at most the limit before the product, or with limits_first the gate is before its activation,
 * and up is within it from both sides; stats are of values without a limit.
 * pairs (GPT-OSS): gate has pairs (gate, up), and up is NULL.  y = (up + 1) gate sigmoid(alpha
 * gate), after gate is clamped to clamp from above and up to it from both sides; no stats, not
 * rounded, no gaps between rows, and y and gate do not overlap. */
struct gate_args {
	enum activation activation; /* not of pairs */
	bool pairs;
	float clamp, alpha; /* of pairs */
	float limit;	    /* with up, not of pairs; 0: none */
	bool limits_first;
	struct rows_in gate, up;
	size_t n_rows, n_cols;
	struct value_stats *gate_stats, *up_stats; /* gate, up are added to them; NULL: none */
	struct rows_out y;			   /* NULL if rounded has codes: not written */
	struct rounded_out rounded;
	/* with rows.stats, in the place of those stats: the slots of the segments' gate, up (the
	 * same one may serve both) and y, which is rounded if `round` */
	struct row_stats rows;
	size_t gate_slot, up_slot, y_slot;
	bool round;
};

/* x = factor x, in rows; or a factor for each row. */
struct scale_args {
	struct rows_out x;
	float factor;
	const float *factors; /* (n_rows), in the place of factor; NULL: none */
	size_t n_rows, n_cols;
};

/* y[r] = x[r / repeat], or x[rows[r]], for rows r of y.  y and x do not overlap. */
struct copy_args {
	struct rows_out y;
	struct rows_in x;
	size_t repeat, n_rows, n_cols;
	const uint32_t *rows; /* (n_rows), in the place of `repeat`; NULL: none */
	/* the elements of pairs are moved half a row apart: y[i] = x[2 i], y[i + n_cols / 2] =
	 * x[2 i + 1] */
	bool pairs;
};

/* y = x * (1 / sqrt(mean(x^2) + eps)) * (offset + weight), row by row.  centered: the mean of x is
 * subtracted from x first, which makes it LayerNorm.  y may be x. */
struct rms_norm_args {
	bool centered;
	struct rows_in x;
	/* NULL, or what x points to as well, with the same stride: first x += add, and add is added
	 * to *add_stats (NULL: none) */
	float *sum;
	const float *add; /* (n_rows, n_cols) */
	struct value_stats *add_stats;
	const float *weight; /* (n_cols); NULL: zeros */
	float offset, eps;
	size_t n_rows, n_cols;
	struct rows_out y; /* NULL if rounded has codes: not written */
	struct rounded_out rounded;
};

/* Rotates the pairs (i, i + rope_dim / 2) of the first rope_dim of each head's head_dim values, in
 * place. */
struct rope_args {
	struct rows_out x; /* a row is a token with n_heads heads */
	size_t n_tokens, n_heads, head_dim;
	const float *cosines, *sines; /* (n_tokens, rope_dim / 2), of the angles */
	size_t rope_dim;
	bool adjacent; /* the pairs are (2 i, 2 i + 1); x has no stats */
	bool back;     /* by the angles times -1 */
	/* NULL, or all values of x are added to them before and after; then rope_dim is head_dim */
	struct value_stats *before, *after;
};

/* The values of a cache in E4M3: x = e4m3(x / scale) scale, with a scale for each head. */
struct round_e4m3_args {
	float *x; /* (n_rows, n_heads, head_dim) */
	size_t n_rows, n_heads, head_dim;
	const float *scales; /* (n_heads) */
};

/* Values that were cast to FP8: those beyond the largest code, and those that were not zero and
 * have a code of zero.  A zeroed struct is of no values.  Operations add to it. */
struct cast_counts {
	uint64_t n_saturated, n_zeros;
};

/* The values of x in FP8: y = code * scale_inv, rounded to the type of y.  Codes and scales are
 * as by backend.h's cast(), to the bit, of any backend; with ARITH_GIVEN, whose tile is the
 * whole of x, the codes are as by it with `scale`, and scale_inv is as given. */
struct round_fp8_args {
	const float *x; /* (n_rows, n_cols) */
	size_t n_rows, n_cols;
	struct qspec spec;
	float scale, scale_inv;	    /* of ARITH_GIVEN */
	void *y;		    /* (n_rows, n_cols) of dtype; may be x if that is F32 */
	enum dtype dtype;	    /* F32 or BF16 */
	struct cast_counts *counts; /* NULL: none */
	/* (n_rows): each of the n_segments segments is cast as if it was the whole of x, counts is
	 * NULL, and the tile of spec is whole; NULL: x is one */
	const uint32_t *segments;
	size_t n_segments;
	struct value_stats *scratch; /* (1), or (n_segments): scratch */
};

/* Words of 32 bits that hold a set of keys of a sequence: key s is bit s % 32 of word s / 32. */
#define KEY_WORDS(n_tokens) (((n_tokens) + 31) / 32)

/* Tokens up to which the sums of attention have the same bits everywhere, whatever args.f16 is. */
#define ATTENTION_MOST_EXACT 1024

/* The causal attention of a sequence: a query attends to its own token and those before it.  The
 * score of a key outside of the query's set is -INFINITY.  Scores, and the sums of weighted values,
 * are one chain of fused multiply-adds each, in the order of features and tokens. */
struct attention_args {
	size_t n_tokens, n_heads, n_kv_heads, head_dim,
		value_dim;    /* n_heads: a multiple of n_kv_heads */
	size_t window;	      /* tokens that a query attends to; 0: all */
	float scale, softcap; /* score = q k scale; then softcap tanh(score / softcap), 0: no cap */
	/* (n_heads): one more score for each head, which adds to the softmax's sum and has no
	 * value; or NULL */
	const float *sinks;
	/* v: (n_tokens, n_heads * head_dim), (n_tokens, n_kv_heads * head_dim or value_dim) */
	const float *q, *k, *v;
	float *y;      /* (n_tokens, n_heads * value_dim) */
	void *scratch; /* of executor_ops.scratch() bytes */
	/* 11 bits of q, k, v and of shares of v are enough: with more than ATTENTION_MOST_EXACT
	 * tokens, the sums may be products of fp16, or of other parts with as many bits */
	bool f16;
	/* keys and values before that of the first token, which k and v begin with; with some,
	 * there are sets, and no window */
	size_t n_before;
	/* (n_sets, n_tokens, KEY_WORDS(n_before + n_tokens)): a set of keys for each query, with at
	 * least one of those up to its own; n_heads / n_sets heads, adjacent, share one.  NULL: all
	 * keys */
	const uint32_t *sets;
	size_t n_sets;
	/* biases by distance, without keys before: a score after its cap gets the sum of weights[i]
	 * profiles[i][distance from the key to the query], one chain of fused multiply-adds in the
	 * order of i, where the distance is less than extent.  weights NULL: none */
	struct {
		const float *weights;  /* (n_tokens, n_heads, n_profiles) */
		const float *profiles; /* (n_profiles, extent) */
		size_t n_profiles, extent;
	} distances;
};

/* Returns the number of keys. */
NUM_INLINE size_t attention_n_keys(const struct attention_args *args)
{
	return args->n_before + args->n_tokens;
}

/* Chooses keys for each query, from the first one to that of its own token t, in blocks of tokens.
 * The score of a key by a head is q k, one chain of fused multiply-adds in the order of features.
 * With weights, or together, the scores of all heads are one: the sum of weight max(q k, 0), fused
 * as well, in the order of heads; without, each head has a set of its own.  The score of a block is
 * the largest score of its keys up to t; the block of t and the n_local - 1 blocks before it come
 * before all others.  A query gets the n_chosen blocks with the largest scores, of equal ones the
 * first.
 *
 * Or the keys are of pools of pool_size tokens each, without blocks: a query chooses from those
 * whose last token is at most its own.  Its set has them first, then its own token and those before
 * it, `window` in all.  Or it is of tokens alone: of the pools chosen, and those behind the
 * last whole pool up to its own.  Without heads all scores are equal. */
struct choose_keys_args {
	size_t n_tokens, n_heads, head_dim;
	const float *q;	      /* (n_tokens, n_heads * head_dim) */
	const float *k;	      /* (n_tokens, head_dim), of all heads */
	const float *weights; /* (n_tokens, n_heads); NULL: none, */
	bool together;	      /* or all are 1 */
	size_t block_size;    /* tokens of a block, at least 1 */
	size_t n_chosen;      /* blocks, at least 1 */
	size_t n_local;	      /* 0: none comes first */
	size_t pool_size;     /* 0: keys are of tokens */
	size_t n_pools;	      /* k has so many rows, at least 1 */
	size_t window;	      /* of pools; 0: all tokens */
	bool of_tokens;	      /* sets have the tokens of pools, not pools */
	/* (n_sets, n_tokens, KEY_WORDS(choose_keys_n_bits())), written */
	uint32_t *sets;
	void *scratch; /* of executor_ops.scratch() bytes */
};

/* Whether the scores of all heads are one. */
NUM_INLINE bool choose_keys_together(const struct choose_keys_args *args)
{
	return args->weights || args->together;
}

/* Returns the number of sets. */
NUM_INLINE size_t choose_keys_n_sets(const struct choose_keys_args *args)
{
	return choose_keys_together(args) || !args->n_heads ? 1 : args->n_heads;
}

/* Returns the number of rows of k. */
NUM_INLINE size_t choose_keys_n_keys(const struct choose_keys_args *args)
{
	return args->pool_size ? args->n_pools : args->n_tokens;
}

/* Returns the number of keys that a set is of. */
NUM_INLINE size_t choose_keys_n_bits(const struct choose_keys_args *args)
{
	return (args->of_tokens ? 0 : args->n_pools) + args->n_tokens;
}

/* Return the number of keys, and of blocks of them, that the query may have. */
NUM_INLINE size_t choose_keys_n_of(const struct choose_keys_args *args, size_t query)
{
	return args->pool_size ? (query + 1) / args->pool_size : query + 1;
}

NUM_INLINE size_t choose_keys_n_blocks(const struct choose_keys_args *args, size_t query)
{
	return (choose_keys_n_of(args, query) + args->block_size - 1) / args->block_size;
}

/* Returns the key after the last one of a block that the query may have. */
NUM_INLINE size_t choose_keys_end(const struct choose_keys_args *args, size_t block, size_t query)
{
	size_t end = (block + 1) * args->block_size, n = choose_keys_n_of(args, query);

	return end < n ? end : n;
}

/* Returns a number that orders the blocks of a query by its scores of keys; UINT32_MAX for those
 * that come before all others. */
NUM_INLINE uint32_t choose_keys_rank(const struct choose_keys_args *args, const float *scores,
				     size_t block, size_t query)
{
	size_t end = choose_keys_end(args, block, query);
	uint32_t most = 0;

	if (block + args->n_local >= choose_keys_n_blocks(args, query))
		return UINT32_MAX;
	for (size_t s = block * args->block_size; s < end; s++) {
		uint32_t rank = f32_rank(scores[s]);

		most = rank > most ? rank : most;
	}
	return most;
}

#define SCAN_MAX_STATE 1024 /* values of a row of a scan's state */

/* The scan of Mamba-2 (arXiv 2405.21060) over a sequence.  A head has a state S (head_dim,
 * state_size), of zeros before the first token.  A token gives it a step d = softplus(steps +
 * step_bias), clamped to [step_min, step_max], and computes
 *     S = exp(-d exp(a_log)) S + (d x) b^T,  y = S c + skip x.
 * Token by token: an element of S becomes (d x b) + decay S, fused.  The sums of S c are fused as
 * well, in 16 lanes (executor.h).  skip x is added to them, not fused.  Or in chunks of tokens, by
 * products of matrices, whose results are within 1e-5 of those, by the root mean square of y. */
struct scan_args {
	size_t n_tokens, n_heads, head_dim;
	size_t n_groups;      /* heads of a group, adjacent, share b and c; n_heads is a multiple */
	size_t state_size;    /* at most SCAN_MAX_STATE */
	struct rows_in x;     /* (n_tokens, n_heads * head_dim) */
	struct rows_in b, c;  /* (n_tokens, n_groups * state_size) */
	struct rows_in steps; /* (n_tokens, n_heads) */
	float step_min, step_max;
	const float *step_bias, *a_log, *skip; /* (n_heads) */
	struct rows_out y; /* (n_tokens, n_heads * head_dim); overlaps no other */
	void *scratch;	   /* of executor_ops.scratch() bytes */
};

#define SCAN_CHANNELS_MAX_STATE 256

/* The scan of Mamba-1 (arXiv 2312.00752) over a sequence.  A channel has a state S (state_size), of
 * zeros before the first token.  A token gives it a step d = softplus(steps), and computes
 *     S = exp(-d exp(a_log)) S + (d x) b,  y = S c + skip x.
 * The sums of S c run in the order of the state, in one lane; skip x is added to them. */
struct scan_channels_args {
	size_t n_tokens, n_channels;
	size_t state_size;	 /* at most SCAN_CHANNELS_MAX_STATE */
	struct rows_in x, steps; /* (n_tokens, n_channels) */
	struct rows_in b, c;	 /* (n_tokens, state_size) */
	const float *a_log;	 /* (state_size, n_channels) */
	const float *skip;	 /* (n_channels) */
	struct rows_out y;	 /* (n_tokens, n_channels); overlaps no other */
};

/* A causal convolution of each column with its own kernel: y[t] = activation(bias + the sum of
 * weight[i] * x[t - width + 1 + i]), in the order of i.  Rows before the first token are left
 * out.
 *
 * With gates, the kernel is a softmax, and y has a row for each whole pool of `pool` tokens, with
 * neither activation nor bias: y[p] = sum of softmax(gates[t] + weight[t % pool]) x[t] over the
 * tokens t of pool p, in order.  With a width of 2 pools, x, gates and weight have 2 n_cols
 * columns, and the sum begins with the tokens of pool p - 1, if there is one: these have the first
 * n_cols columns, and the tokens of pool p the others.  With a pool, but without gates and weight,
 * y is the mean of each whole pool. */
struct convolve_args {
	enum activation activation;
	struct rows_in x;
	struct rows_in weight; /* (width, n_cols): the last row is multiplied by x[t] */
	const float *bias;     /* (n_cols); NULL: none */
	struct rows_in gates;  /* as x; data NULL: none */
	size_t width, n_tokens, n_cols;
	size_t pool;	   /* of gates and of means: width, or half of it; else 0 */
	struct rows_out y; /* does not overlap x */
};

#define MIX_MAX_STREAMS 8

/* Returns the number of products of mix_streams() with weights, and of those without. */
#define MIX_PRODUCTS(n_streams) ((2 + (n_streams)) * (n_streams))

/* The residual stream as n vectors X_j for each token: hyper-connections (arXiv 2512.24880).  With
 * fn, before a block: the products m = fn X / sqrt(mean(X^2) + norm_eps) are n, n and n * n values,
 * each part with its scale and base, m scale + base:
 *     pre = sigmoid + eps,  post = 2 sigmoid,  C = softmax of each row + eps,
 * then C is divided by the sums of its columns + eps, and n_rounds - 1 times by the sums of its
 * rows and of its columns (Sinkhorn).  y becomes the sum of pre_j X_j; weights keep post and C.
 * Without weights, fn has pre alone.
 * Without fn, behind the block: X_j = post_j y + the sum of C_ij X_i; with no rounds there is no
 * C, and X_j += post_j y.  Sums over j and i run in their order.
 * With keys, X_j = sigmoid(r) y with r = sign(c) sqrt(max(|c|, 1e-6)), c = X_j keys_j /
 * sqrt(n_cols). */
struct mix_streams_args {
	size_t n_tokens, n_streams, n_cols; /* n_streams: at most MIX_MAX_STREAMS */
	float *streams;			    /* (n_tokens, n_streams, n_cols) */
	/* (n_tokens, n_streams + n_streams * n_streams), with no rounds (n_tokens, n_streams);
	 * NULL: of pre alone */
	float *weights;
	const float *keys; /* (n_tokens, n_streams, n_cols); NULL: none */
	const float *fn;   /* (MIX_PRODUCTS(n_streams), n_streams * n_cols), or (n_streams, same) */
	const float *base; /* (MIX_PRODUCTS(n_streams)), or (n_streams) */
	const float *scale; /* (3), or (1) */
	float norm_eps, eps;
	size_t n_rounds;
	float *y; /* (n_tokens, n_cols): written with fn, else read */
};

#define DELTA_MAX_KEY_DIM 256

/* The gated delta rule (arXiv 2412.06464) over a sequence.  First the gates, in place: a =
 * exp(-exp(a_log) softplus(a + dt_bias)), the decays of a state, and b = sigmoid(b), the rate at
 * which it learns.  Or, below 0, lower_bound bounds the logarithms of decays: a = exp(lower_bound
 * sigmoid(exp(a_log) (a + dt_bias))).  With a_log NULL, a and b are decays and rates already.
 *
 * Then the scan.  A value head has a state S (key_dim, value_dim), of zeros before the first token.
 * For a token with its q, k, v, decay a and rate b:
 *     d = b (v - a S^T k),  y = a S^T q + (q k) d,  S = k d^T + a S.
 * Or a is a decay for each feature of keys, which multiplies a row of S: Kimi Delta Attention,
 * arXiv 2510.26692.
 * Token by token: the sums of S^T k and S^T q are 4 chains of fused multiply-adds (feature i in
 * chain i % 4), which are then added pairwise (2, 1 apart).  An element of S becomes (k d) + a S,
 * fused.  Decays of features multiply S before it is summed, one of all features multiplies the
 * sums.  Or in chunks, as struct scan_args. */
struct delta_args {
	/* value heads of a key head are adjacent; n_heads is a multiple of n_key_heads */
	size_t n_tokens, n_heads, n_key_heads;
	size_t key_dim; /* at most DELTA_MAX_KEY_DIM */
	size_t value_dim;
	size_t n_decays;      /* of a head: 1, or key_dim */
	const float *q, *k;   /* (n_tokens, n_key_heads * key_dim) */
	const float *v;	      /* (n_tokens, n_heads * value_dim) */
	float *a, *b;	      /* (n_tokens, n_heads * n_decays), (n_tokens, n_heads): the gates */
	const float *a_log;   /* (n_heads) */
	const float *dt_bias; /* (n_heads * n_decays) */
	float lower_bound;    /* 0: none */
	float *y;	      /* (n_tokens, n_heads * value_dim); does not overlap the others */
	void *scratch;	      /* of executor_ops.scratch() bytes */
};

/* Operations that run one after the other; NULL: none.  Of their pointers, only whether there are
 * weights counts. */
struct scratch_args {
	const struct attention_args *attention;
	const struct choose_keys_args *keys;
	const struct scan_args *scan;
	const struct delta_args *delta;
};

#endif
