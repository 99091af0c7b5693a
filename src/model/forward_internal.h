/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the forward pass share.
 */
#ifndef FP8CONV_MODEL_FORWARD_INTERNAL_H
#define FP8CONV_MODEL_FORWARD_INTERNAL_H

#include "model/forward.h"

#define HEAD_BLOCK 512 /* tokens whose logits are computed at once, by parts of the head */

struct forward_lane {
	int number;
	struct gemm_lane gemm;
	size_t max_tokens;
	float *normed;	  /* (tokens, hidden) */
	float *q, *k, *v; /* (tokens, heads * head_dim), (tokens, kv heads * head_dim); qkv fused: in q */
	float *narrow;	  /* (tokens, rank): queries, keys and values of latent attention, squeezed, */
	float *expanded;  /* (tokens, heads * (still + value_dim)), and as they come out */
	float *mixed;	  /* (tokens, heads * value_dim): what attention gives */
	float *out;	  /* (tokens, hidden) */
	float *gate, *up; /* (tokens, widest mlp); gate_up fused: in gate */
	float *keys, *values; /* of one head, packed */
	float *mixing;	  /* (ATTENTION_QUERIES, attention_wide()) */
	float *scores;	  /* (ATTENTION_QUERIES, attention_stride()), (HEAD_BLOCK, a part of the head), (tokens + 1, experts) */
	float *gathered, *expert_out; /* (tokens, hidden), of the tokens of one expert */
	uint16_t *rounded; /* input of a product, bf16: (tokens, widest) */
	size_t *chosen;	   /* (tokens, top_k) experts, and their weights */
	float *weights;
	float *cosines, *sines; /* (tokens, rope.n / 2), of */
	const struct rope *rope; /* which */
	size_t n_angles;
};

/* ys[i] (m, n) = x (m, k) of each of n matrices, bias added; x is rounded in place, once.  Observers see x and y of each. */
int linears_run(const struct forward *forward, struct forward_lane *lane, const struct layer *layer, size_t n,
		const struct linear *const linears[], const struct sequence *sequence, float *x, size_t m,
		float *const ys[], struct err *err);
int linear_run(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
	       const struct linear *linear, const struct sequence *sequence, float *x, size_t m, float *y,
	       struct err *err);

int forward_attention(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		      const struct sequence *sequence, struct err *err);
int forward_mlp(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		const struct sequence *sequence, struct err *err);

/* Takes the amax, and tells observers. */
int forward_show(const struct forward *forward, struct sighting *sighting, struct err *err);

#endif
