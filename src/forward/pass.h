/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the forward pass share.
 */
#ifndef FP8CONV_FORWARD_PASS_H
#define FP8CONV_FORWARD_PASS_H

#include "forward/forward.h"

#define HEAD_BLOCK 512 /* tokens whose logits are computed at once, by parts of the head */

struct workspace {
	struct executor_stream *executor;
	const struct executor_ops *ops;
	int number;
	size_t max_tokens;
	size_t n_slots_used; /* slots that the layer under way has taken */

	uint32_t *places; /* (tokens): rows of a table of embeddings, which lies in normed */
	float *normed;	  /* (tokens, hidden) */
	/* (tokens, heads * head_dim), (tokens, kv heads * head_dim or value_dim) */
	float *q, *k, *v;
	float *joined; /* (tokens, widest): q, k and v, or gate and up, as one matrix gives them */
	float *narrow; /* (tokens, rank): queries, keys and values of latent attention, squeezed, */
	float *latent; /* (tokens, kv rank): normed, */
	float *turning;	  /* (tokens, turning): the part of keys that turns, */
	float *expanded;  /* (tokens, heads * (nope_dim + value_dim)): and as they come out */
	float *mixed;	  /* (tokens, heads * value_dim): what attention gives */
	float *out;	  /* (tokens, hidden) */
	float *gate, *up; /* (tokens, widest mlp) */
	float *scores;	  /* (HEAD_BLOCK, a part of the head), (tokens, experts) */
	void *spare;	  /* of attention */
	float *gathered, *expert_out; /* (tokens, hidden), of the tokens of one expert */
	uint32_t *rows;		      /* (tokens * top_k): tokens by expert, */
	float *factors;		      /* and what each is multiplied by */
	uint16_t *rounded;	      /* input of a product, bf16: (tokens, widest), */
	const float *rounded_from;    /* and which, since it was looked at; NULL: none */
	float *filtered;	      /* the same, of the filter */
	float *cosines, *sines;	      /* (tokens, rope.n / 2), of */
	const struct rope *rope;      /* which */
	size_t n_angles;
	uint32_t *labels; /* (HEAD_BLOCK) */
	float *log_sums;  /* (HEAD_BLOCK, parts of the head) */
	float *picked;	  /* (HEAD_BLOCK) */

	/* The host's. */
	float *host_input;	   /* of the filter: (tokens, widest), */
	const float *fetched_from; /* and which, as rounded_from says it */
	float *host_scores;	   /* (tokens + 1, experts) */
	size_t *chosen;		   /* (tokens, top_k) experts, and their weights */
	float *weights;
	uint32_t *host_rows;
	float *host_factors;
	float *host_cosines, *host_sines;
	uint32_t *host_labels;
	float *host_log_sums, *host_picked;
};

/* Rows that are best taken at a time through matrices that read and write n values for each.  What
 * quantizes an input wants it whole. */
size_t forward_rows(const struct forward *forward, const struct workspace *lane, size_t n);

/* ys[i] (m, n) = x (m, k) of each of n matrices, bias added; x is rounded in place, once.
 * Observers see x and y of each. */
int linears_run(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		size_t n, const struct linear *const linears[], const struct sequence *sequence,
		float *x, size_t m, float *const ys[], struct err *err);
int linear_run(const struct forward *forward, struct workspace *lane, const struct layer *layer,
	       const struct linear *linear, const struct sequence *sequence, float *x, size_t m,
	       float *y, struct err *err);

/* The parts of that: x rounded and looked at, of a matrix of k columns; ... */
struct observation linear_observation(const struct forward *forward, struct workspace *lane,
				      const struct layer *layer, const struct sequence *sequence,
				      float *x, size_t m, size_t k);

/* ... what is multiplied, after observers have seen x; ... */
int linear_input(const struct forward *forward, struct workspace *lane, const struct linear *linear,
		 const struct observation *x, const void **input, struct err *err);

/* ... and n columns of the product, from `first` on, which get their bias and are looked at: in the
 * observation's slot. */
void linear_output(const struct forward *forward, struct workspace *lane,
		   const struct linear *linear, const struct sequence *sequence,
		   struct observation y, float *values, size_t first, size_t n);

int forward_attention(const struct forward *forward, struct workspace *lane,
		      const struct layer *layer, const struct sequence *sequence, struct err *err);
int forward_mlp(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		const struct sequence *sequence, struct err *err);

/* normed = norm(x), (tokens, hidden). */
void forward_norm(const struct forward *forward, struct workspace *lane, const float *x,
		  const float *weight, size_t n_tokens, float *normed);

/* Takes the amax into the observation's slot, and tells observers. */
void pass_observe(const struct forward *forward, struct workspace *lane,
		  const struct sequence *sequence, const struct observation *observation);

#endif
