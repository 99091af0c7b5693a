/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of a transformer between its matrix products, in fp32, one thread at a time.
 * Every instruction set gives the same bits: sums run in 16 lanes (element i in lane i % 16), which
 * are then added pairwise (8, 4, 2, 1 apart), and no product is contracted with a sum, unless
 * stated below.
 *
 * Matrices are row-major without gaps between rows, unless a stride (in elements) is given.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_OPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"
#include "backend/host_ops.h"
#include "num/activation.h"

/* The changes to scores before their exponentials. */
struct softmax {
	float scale;
	float softcap; /* then softcap tanh(score / softcap); 0: no cap */
	/* one more score, which adds to the sum and has no value; NULL: none */
	const float *sink;
};

#define ATTENTION_PANEL	  64 /* tokens whose keys are packed together */
#define ATTENTION_QUERIES 64 /* most queries of a block */

/* The causal attention of one head: a query attends to its own token and those before it.  The
 * caller allocates the arrays. */
struct attention {
	size_t n_tokens, head_dim, value_dim;
	size_t window; /* tokens that a query attends to; 0: all */
	struct softmax softmax;
	float *keys;	 /* (tokens to whole panels, head_dim), packed */
	float *values;	 /* (tokens, attention_value_stride()), packed */
	float *scores;	 /* scratch: (ATTENTION_QUERIES, attention_score_stride()) */
	float *attn_out; /* scratch: (ATTENTION_QUERIES, attention_value_stride()) */
};

/* Returns value_dim rounded up to whole vectors. */
static inline size_t attention_value_stride(size_t value_dim)
{
	return (value_dim + 15) / 16 * 16;
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

/* The queries of tokens [first, first + n), n <= ATTENTION_QUERIES, and their results. */
struct query_block {
	size_t first, n;
	struct rows_in q;  /* (n, head_dim) */
	struct rows_out y; /* (n, value_dim) */
};

#define SCAN_CHUNK 64 /* tokens that a scan takes at once */
#define SCAN_PANEL 64 /* columns of a state that go through all tokens together */

/* Returns n_tokens rounded up to whole chunks. */
static inline size_t chunk_tokens(size_t n_tokens)
{
	return (n_tokens + SCAN_CHUNK - 1) / SCAN_CHUNK * SCAN_CHUNK;
}

/* Returns the scratch memory of a scan in chunks, in floats, for keys (or b) and their products of
 * all tokens, and for a panel of a state and of two matrices of tokens. */
static inline size_t chunk_scratch_floats(size_t n_tokens, size_t n_features)
{
	return chunk_tokens(n_tokens) * (n_features + SCAN_CHUNK) +
	       (n_features + 2 * SCAN_CHUNK) * SCAN_PANEL;
}

/* The same of Mamba-2's, with the steps and the decays of all tokens and heads. */
static inline size_t scan_scratch_floats(const struct scan_args *args)
{
	return chunk_scratch_floats(args->n_tokens, args->state_size) +
	       2 * args->n_tokens * args->n_heads;
}

/* The same of gated DeltaNet's, with the products of queries and keys; and with decayed queries and
 * keys, and what each chunk leaves of a state, where decays are of features. */
static inline size_t delta_scratch_floats(const struct delta_args *args)
{
	size_t n_padded = chunk_tokens(args->n_tokens),
	       n = chunk_scratch_floats(n_padded, args->key_dim);

	if (args->n_decays > 1)
		n += 2 * n_padded * args->key_dim + n_padded / SCAN_CHUNK * args->key_dim;
	return n + n_padded * SCAN_CHUNK;
}

struct cpu_ops {
	struct host_ops host; /* first: cpu_ops_of() */

	/* Returns max |x| of n values; ignores NaN, counts inf.  Adds the number of NaN and inf to
	 * *n_nonfinite. */
	float (*amax)(const float *x, size_t n, uint64_t *n_nonfinite);

	/* Counts each value: counts[2 * (bits of |x| >> 20)]++. The bin is the exponent and 3 bits
	 * of the mantissa: 2048 counts, which use every second element. */
	void (*histogram)(const float *x, size_t n, uint64_t *counts);

	/* x = bf16(x) in place; returns amax() of the rounded x. */
	float (*round_amax)(float *x, size_t n, uint64_t *n_nonfinite);

	void (*scale)(float *x, float factor, size_t n);		      /* x = factor x */
	void (*add)(float *x, const float *y, size_t n);		      /* x += y */
	void (*add_scaled)(float *x, const float *y, float factor, size_t n); /* x += factor * y */
	void (*add_row)(float *x, const float *row, size_t n_rows,
			size_t n_cols); /* each row of x += row */

	void (*rms_norm)(const struct rms_norm_args *args);

	/* As rope_args, for one token: n is rope_dim, with n / 2 angles. */
	void (*rope)(float *x, size_t n_heads, size_t head_dim, const float *cosines,
		     const float *sines, size_t n);

	/* y = activation(gate) * up; y may be gate or up. */
	void (*gate)(enum activation activation, const float *gate, const float *up, size_t n,
		     float *y);

	/* y = activation(x); y may be x. */
	void (*activate)(enum activation activation, const float *x, size_t n, float *y);

	void (*gate_interleaved)(const struct gate_interleaved_args *args);

	void (*softcap)(float *x, float cap, size_t n); /* x = cap tanh(x / cap) */

	/* Returns log(sum exp(x)) of n values. */
	float (*log_sum_exp)(const float *x, size_t n);

	/* Turns a row of n scores into probabilities, in place. */
	void (*softmax)(float *x, size_t n);

	/* divergence_args of one row, with top_p and top_q from its first column on.  Sums are
	 * fp64, of 16 lanes likewise. */
	void (*divergence)(const float *p, const float *q, size_t n, struct divergence_sums *sums);

	/* Packs keys (n_tokens, head_dim) and values (n_tokens, value_dim), whose rows have
	 * strides. */
	void (*attention_pack)(const struct attention *attention, const float *k, size_t k_stride,
			       const float *v, size_t v_stride);

	/* Fuses products with sums, in one chain for each sum: scores in the order of features,
	 * results in the order of tokens. */
	void (*attend)(const struct attention *attention, const struct query_block *block);

	/* executor_ops.scan(); args->scratch has scan_scratch_floats() floats. */
	void (*scan)(const struct scan_args *args);

	/* executor_ops.scan_channels(). */
	void (*scan_channels)(const struct scan_channels_args *args);

	/* executor_ops.convolve(), delta_gates() and delta(), whose args->scratch has
	 * delta_scratch_floats() floats. */
	void (*convolve)(const struct convolve_args *args);
	void (*delta_gates)(const struct delta_gates_args *args);
	void (*delta)(const struct delta_args *args);
};

extern const struct cpu_ops cpu_ops_any;
extern const struct cpu_ops cpu_ops_avx2;
extern const struct cpu_ops cpu_ops_avx512;

/* Returns the operations that the instruction set of a host_ops row has. */
static inline const struct cpu_ops *cpu_ops_of(const struct host_ops *host)
{
	return (const struct cpu_ops *)host;
}

#endif
