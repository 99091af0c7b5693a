/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the operations of executor.h on experts: the choice of experts, and rows of
 * several sequences, sorted by expert.  All pointers are of the executor's memory.
 */
#ifndef FP8CONV_BACKEND_EXPERT_ARGS_H
#define FP8CONV_BACKEND_EXPERT_ARGS_H

#include "backend/executor_args.h"

/* What the scores of experts are, by which they are chosen, and their weights. */
enum route_kind {
	ROUTE_SOFTMAX,	      /* scores and weights: a softmax over all experts */
	ROUTE_SIGMOID,	      /* sigmoids */
	ROUTE_SQRT_SOFTPLUS,  /* sqrt(softplus(logit)) */
	ROUTE_CHOSEN_SOFTMAX, /* scores are logits, weights a softmax over the chosen ones */
	ROUTE_CHOSEN_SIGMOID, /* scores are logits, weights sigmoids */
};

/* Chooses top_k of n_experts for each token, those with the largest scores, of equal ones the
 * first; with groups, from the top_groups groups of the largest scores.  The score of a group is
 * that of its best expert (group_max), or the sum of its two best ones.  With norm_top_k, weights
 * are divided by the sum of the scores of the chosen experts + sum_eps.  Then they are multiplied
 * by scale, and by the scale of their expert.  The softmax over all experts is exp(score - log of
 * the sum of exponentials); the logarithm is a library's.  With a softcap c, a logit l is c
 * tanh(l / c) first.  are_chosen: the experts of each token, which are different ones, are there
 * already, and get their weights alone.  n_shared experts behind the others are not chosen: their
 * weights, without a bias, are divided by the same sum and multiplied by scale.  Then the kind has
 * no softmax. */
struct route_args {
	size_t n_tokens, n_experts, top_k; /* top_k: at most n_experts */
	enum route_kind kind;
	size_t n_groups, top_groups; /* n_groups: 0 or 1, no groups; else it divides n_experts */
	bool group_max, norm_top_k, are_chosen;
	float sum_eps, scale, softcap; /* softcap 0: none */
	const float *bias;	       /* (n_experts): added to scores for the choice; NULL: none */
	const float *expert_scales;    /* (n_experts); NULL: 1 */
	size_t n_shared;
	float *shared_weights; /* (n_shared, shared_stride), written: of n_tokens each */
	size_t shared_stride;
	float *scores;	  /* (2, n_tokens, n_experts + n_shared): logits, then scratch */
	uint32_t *chosen; /* (n_tokens, top_k), written: ascending */
	float *weights;	  /* (n_tokens, top_k), written */
};

#define SORT_MAX_SEQUENCES 8

/* Sorts the n_tokens * top_k choices by expert, then by token.  The tokens of n_sequences lie
 * one after the other. */
struct sort_choices_args {
	const uint32_t *chosen; /* (n_tokens, top_k) */
	const float *weights;
	size_t n_tokens, n_experts, top_k;
	size_t n_sequences;
	size_t ends[SORT_MAX_SEQUENCES]; /* (n_sequences): the token after each */
	/* written; (n_tokens * top_k) in sorted order: the token, its weight and its segment */
	uint32_t *rows;
	float *factors;
	uint32_t *segments; /* NULL: not wanted */
	uint32_t *places;   /* (n_tokens, top_k), written: the place of each choice; NULL */
	uint32_t *counts;   /* (n_experts, n_sequences), written: rows of each segment */
};

/* y[r] = factors[r] * x[rows[r]], rounded to bf16 if `round`, and added to the stats. */
struct take_rows_args {
	const float *x;
	const uint32_t *rows; /* NULL: row r itself */
	const float *factors; /* NULL: 1 */
	size_t n_rows, n_cols;
	bool round;
	struct row_stats stats;
	size_t slot;
	float *y;	 /* (n_rows, n_cols), may be x with rows NULL; NULL: not written */
	uint16_t *codes; /* with `round`: the same as bf16; NULL: not written */
};

/* y[rows[r]] += factors[r] * x[r], for rows r in order.  The same by places, for tokens at once:
 * y[t] += weights[t, i] * x[places[t, i] - first], for i in order, of the places in [first, first +
 * n_rows). */
struct combine_args {
	float *y;		/* (n_tokens, n_cols) */
	const float *x;		/* (n_rows, n_cols) */
	const uint32_t *rows;	/* (n_rows): tokens */
	const float *factors;	/* (n_rows); NULL: 1 */
	const uint32_t *places; /* (n_tokens, top_k) */
	const float *weights;	/* (n_tokens, top_k); NULL: 1 */
	size_t first, n_rows;
	size_t n_tokens, top_k, n_cols;
};

#endif
