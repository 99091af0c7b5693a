/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a forward pass runs: memory, matrix products in high precision, and the operations of a
 * transformer between them, in fp32.
 *
 * Order: open(); stream_new() for each thread; weight_init(), weight_set() for each panel;
 * operations; wait(); weight_release(), stream_free(); close().
 *
 * All values lie in the memory of the executor, which need not be the host's.  A stream does its
 * work in order, and executor_ops.wait() returns when all of it is done.  One thread at a time uses
 * a stream.  A stream remembers a failure: the results of later work are invalid, and wait()
 * returns the failure.
 *
 * The same input gives the same bits on any number of streams.  Every executor gives the same bits,
 * except for the sums of products, which a library computes, and for scans in chunks.  Other sums
 * run in 16 lanes (element i in lane i % 16), which are then added pairwise (8, 4, 2, 1 apart).  No
 * product is contracted with a sum, unless a contract below says so.
 *
 * Matrices are row-major without gaps between rows, unless a stride (in elements) is given.  With n
 * of 0, an operation does nothing.
 */
#ifndef FP8CONV_BACKEND_EXECUTOR_H
#define FP8CONV_BACKEND_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "num/activation.h"
#include "num/dtype.h"

struct executor_ops;

/* An open executor, for all threads.  The executor's own struct begins with it. */
struct executor {
	const struct executor_ops *ops;
};

/* The queue of one thread.  The executor's own struct begins with it. */
struct executor_stream {
	struct executor *executor;
};

/* A weight (n, k) that multiplies x (m, k).  A weight of many rows is stored as panels of rows, in
 * order. */
struct executor_weight {
	struct executor *executor;
	enum dtype dtype;  /* type of the weight and of x: BF16 or F32 */
	size_t n, k;	   /* at least 1 */
	size_t panel_rows; /* rows of each panel but the last: executor_ops.panel_rows(n) */
	void *data;	   /* private to the executor */
};

/* Returns the number of panels of a weight. */
static inline size_t executor_weight_panels(const struct executor_weight *weight)
{
	return (weight->n + weight->panel_rows - 1) / weight->panel_rows;
}

/* Returns the number of rows of a panel. */
static inline size_t executor_weight_panel_rows(const struct executor_weight *weight, size_t panel)
{
	size_t left = weight->n - panel * weight->panel_rows;

	return left < weight->panel_rows ? left : weight->panel_rows;
}

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

/* y = activation(gate) * up (num/activation.h).  y may be gate or up if their strides are equal. */
struct gate_args {
	enum activation activation;
	struct rows_in gate, up;
	size_t n_rows, n_cols;
	struct rows_out y;
};

/* x = factor x, in rows; or a factor for each row. */
struct scale_args {
	struct rows_out x;
	float factor;
	const float *factors; /* (n_rows), in the place of factor; NULL: none */
	size_t n_rows, n_cols;
};

/* GPT-OSS: y = (up + 1) gate sigmoid(alpha gate), after gate is clamped to clamp from above and up
 * to it from both sides.  y and x do not overlap. */
struct gate_interleaved_args {
	const float *x; /* (n, 2): pairs (gate, up) */
	float clamp, alpha;
	size_t n;
	float *y; /* (n) */
};

/* y[r] = x[r / repeat], for rows r of y.  y and x do not overlap. */
struct copy_args {
	struct rows_out y;
	struct rows_in x;
	size_t repeat, n_rows, n_cols;
};

/* Moves the elements of pairs half a row apart: y[i] = x[2 i], y[i + n_cols / 2] = x[2 i + 1].  y
 * and x do not overlap. */
struct deinterleave_args {
	struct rows_out y;
	struct rows_in x;
	size_t n_rows, n_cols;
};

/* y[rows[r]] += factors[r] * x[r], for each row r of x.  No row of y occurs twice. */
struct scatter_add_args {
	float *y;
	const float *x;
	const uint32_t *rows;
	const float *factors; /* NULL: 1 */
	size_t n_rows, n_cols;
};

/* y = x * (1 / sqrt(mean(x^2) + eps)) * (offset + weight), row by row.  centered: the mean of x is
 * subtracted from x first, which makes it LayerNorm.  y may be x. */
struct rms_norm_args {
	bool centered;
	struct rows_in x;
	const float *weight; /* (n_cols); NULL: zeros */
	float offset, eps;
	size_t n_rows, n_cols;
	struct rows_out y;
};

/* Rotates the pairs (i, i + rope_dim / 2) of the first rope_dim of each head's head_dim values, in
 * place. */
struct rope_args {
	struct rows_out x; /* a row is a token with n_heads heads */
	size_t n_tokens, n_heads, head_dim;
	const float *cosines, *sines; /* (n_tokens, rope_dim / 2), of the angles */
	size_t rope_dim;
};

/* The values of a cache in E4M3: x = e4m3(x / scale) scale, with a scale for each head. */
struct round_e4m3_args {
	float *x; /* (n_rows, n_heads, head_dim) */
	size_t n_rows, n_heads, head_dim;
	const float *scales; /* (n_heads) */
};

/* The causal attention of a sequence: a query attends to its own token and those before it. */
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
	void *scratch; /* of attention_scratch() bytes */
};

#define SCAN_MAX_STATE 1024 /* values of a row of a scan's state */

/* The scan of Mamba-2 (arXiv 2405.21060) over a sequence.  A head has a state S (head_dim,
 * state_size), of zeros before the first token.  A token gives it a step d = softplus(steps +
 * step_bias), clamped to [step_min, step_max], and computes
 *     S = exp(-d exp(a_log)) S + (d x) b^T,  y = S c + skip x. */
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
	void *scratch;	   /* of scan_scratch() bytes */
};

#define SCAN_CHANNELS_MAX_STATE 256

/* The scan of Mamba-1 (arXiv 2312.00752) over a sequence.  A channel has a state S (state_size), of
 * zeros before the first token.  A token gives it a step d = softplus(steps), and computes
 *     S = exp(-d exp(a_log)) S + (d x) b,  y = S c + skip x. */
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
 * out. */
struct convolve_args {
	enum activation activation;
	struct rows_in x;
	struct rows_in weight; /* (width, n_cols): the last row is multiplied by x[t] */
	const float *bias;     /* (n_cols); NULL: none */
	size_t width, n_tokens, n_cols;
	struct rows_out y; /* does not overlap x */
};

/* The gates of gated DeltaNet: a = exp(-exp(a_log) softplus(a + dt_bias)), the decays of a state,
 * and b = sigmoid(b), the rate at which it learns; in place. */
struct delta_gates_args {
	float *a;	      /* (n_tokens, n_heads * n_decays) */
	float *b;	      /* (n_tokens, n_heads) */
	const float *a_log;   /* (n_heads) */
	const float *dt_bias; /* (n_heads * n_decays) */
	size_t n_tokens, n_heads, n_decays;
};

#define DELTA_MAX_KEY_DIM 256

/* The gated delta rule (arXiv 2412.06464) over a sequence.  A value head has a state S (key_dim,
 * value_dim), of zeros before the first token.  For a token with its q, k, v, decay a and rate b:
 *     d = b (v - a S^T k),  y = a S^T q + (q k) d,  S = k d^T + a S.
 * Or a is a decay for each feature of keys, which multiplies a row of S: Kimi Delta Attention,
 * arXiv 2510.26692. */
struct delta_args {
	/* value heads of a key head are adjacent; n_heads is a multiple of n_key_heads */
	size_t n_tokens, n_heads, n_key_heads;
	size_t key_dim; /* at most DELTA_MAX_KEY_DIM */
	size_t value_dim;
	size_t n_decays;    /* of a head: 1, or key_dim */
	const float *q, *k; /* (n_tokens, n_key_heads * key_dim) */
	const float *v;	    /* (n_tokens, n_heads * value_dim) */
	const float *a, *b; /* (n_tokens, n_heads * n_decays), (n_tokens, n_heads): the gates */
	float *y;	    /* (n_tokens, n_heads * value_dim); does not overlap the others */
	void *scratch;	    /* of delta_scratch() bytes */
};

/* The loss: from logits to the terms of the cross-entropy. */
struct cross_entropy_args {
	/* (n_rows, n_cols): columns [first, first + n_cols) of a wider matrix; capped in place */
	float *logits;
	size_t n_rows, n_cols, first;
	float softcap;		/* 0: no cap */
	const uint32_t *labels; /* (n_rows) */
	float *log_sums;	/* (n_rows): written, log(sum exp) of each row */
	float *label_logits;	/* (n_rows): written where the label is one of the columns */
};

/* Sums over some columns of the logits p and q of one row. */
struct divergence_sums {
	float max_p, max_q;	 /* the largest logits */
	uint32_t top_p, top_q;	 /* their columns; of equal ones the first */
	double sum_p, sum_q;	 /* of exp(p - max_p); of exp(q - max_q) */
	double cross_p, cross_q; /* of exp(p - max_p) (p - q); of exp(q - max_q) (q - p) */
};

/* The divergence of two distributions from each other, by their logits. */
struct divergence_args {
	const float *p,
		*q; /* (n_rows, n_cols): columns [first, first + n_cols) of wider matrices */
	size_t n_rows, n_cols, first;
	struct divergence_sums *sums; /* (n_rows): written */
};

struct executor_ops {
	const char *name; /* "cpu" */
	/* the number of tokens whose product takes as long as loading the weights */
	size_t tokens_per_load;
	/* The streams that keep it busy: the threads of a command are by default at least and at
	 * most so many.  0: the CPUs compute, a thread for each. */
	int min_streams, max_streams;

	/* Writes the library of the products and its version, such as "oneDNN 2.6.3", to a text of
	 * size bytes.  ERR_SYSTEM with the missing library. */
	int (*library)(char *text, size_t size, struct err *err);

	/* Opens the executor.  ERR_SYSTEM with the missing library or device.  Here and below, a
	 * function that frees accepts NULL. */
	int (*open)(struct executor **executor, struct err *err);
	void (*close)(struct executor *executor);

	int (*stream_new)(struct executor_stream **stream, struct executor *executor,
			  struct err *err);
	void (*stream_free)(struct executor_stream *stream);

	/* Waits until all work of the stream is done.  Returns 0, or the first failure since the
	 * last wait(). */
	int (*wait)(struct executor_stream *stream, struct err *err);

	/* --- memory --- */

	/* Returns the bytes that are free now, with those of released weights.  NULL: the memory is
	 * the host's, and others need it too. */
	uint64_t (*memory_left)(void);

	/* Allocates size bytes, or fails with err->no_memory, and names the size and `what`. */
	int (*memory_new)(struct executor *executor, void **memory, uint64_t size, const char *what,
			  struct err *err);
	void (*memory_free)(struct executor *executor, void *memory);
	void (*zero)(struct executor_stream *stream, void *memory, size_t size);

	/* Copy from the host and to it.  The host's memory must stay valid until wait(). */
	void (*put)(struct executor_stream *stream, void *to, const void *from, size_t size);
	void (*fetch)(struct executor_stream *stream, void *to, const void *from, size_t size);

	/* --- products --- */

	/* Returns the type in which bf16 values multiply fastest: BF16, or F32, which holds the
	 * same values. */
	enum dtype (*bf16_type)(void);

	/* Returns panel_rows for a weight of n rows. */
	size_t (*panel_rows)(size_t n);

	/* Returns how many rows of x to take at a time, at least 1, so that matrices which read and
	 * write n values for each row stay in the cache between two operations. */
	size_t (*rows)(size_t n);

	/* Allocates the weight, or fails as memory_new().  The caller has set all members but
	 * data. */
	int (*weight_init)(struct executor_weight *weight, struct err *err);
	void (*weight_release)(struct executor_weight *weight);

	/* Copies the rows of a panel from the host: k elements each, of weight->dtype.  Called once
	 * for each panel, before the panel is multiplied, by any thread. */
	int (*weight_set)(const struct executor_weight *weight, size_t panel, const void *rows,
			  struct err *err);

	/* y (m, n) = x (m, k) w^T, accumulated in fp32; x has type weight->dtype. */
	void (*multiply)(struct executor_stream *stream, const struct executor_weight *weight,
			 const void *x, size_t m, float *y);

	/* y (m, executor_weight_panel_rows()) = x (m, k) times the transposed rows of that
	 * panel. */
	void (*multiply_panel)(struct executor_stream *stream, const struct executor_weight *weight,
			       size_t panel, const void *x, size_t m, float *y);

	/* Returns how many columns of h to take for each panel of gram(), for x with k columns: as
	 * many as are worth reading x once more.  Several streams may work on panels of one h. */
	size_t (*gram_cols)(size_t k);

	/* Adds x^T x to a panel of h, and writes nothing else.  Products are exact, sums fp32: the
	 * tokens of one call are summed up and added to h, or a few hundred tokens at a time, in
	 * order.  So h depends on the calls with x, and on their order, not on streams.  With m of
	 * 0 it does nothing. */
	void (*gram)(struct executor_stream *stream, const struct gram_args *args);

	/* --- statistics of values --- */

	/* Adds x to *stats. */
	void (*amax)(struct executor_stream *stream, const float *x, size_t n,
		     struct value_stats *stats);

	/* Rounds x to bf16 in place, and adds the result to *stats. */
	void (*round_amax)(struct executor_stream *stream, float *x, size_t n,
			   struct value_stats *stats);

	/* Counts each value: counts[2 * (bits of |x| >> 20)]++. The bin is the exponent and 3 bits
	 * of the mantissa: 2048 counts, which use every second element. */
	void (*histogram)(struct executor_stream *stream, const float *x, size_t n,
			  uint64_t *counts);

	/* --- element by element --- */

	/* y = bf16(x), to nearest even. */
	void (*round_bf16)(struct executor_stream *stream, const float *x, size_t n, uint16_t *y);

	/* x += y. */
	void (*add)(struct executor_stream *stream, float *x, const float *y, size_t n);

	/* Adds the row (n_cols) to each row of x. */
	void (*add_row)(struct executor_stream *stream, float *x, const float *row, size_t n_rows,
			size_t n_cols);

	void (*gate)(struct executor_stream *stream, const struct gate_args *args);

	/* y = activation(x) of n values (num/activation.h).  y may be x. */
	void (*activate)(struct executor_stream *stream, enum activation activation, const float *x,
			 size_t n, float *y);

	void (*scale)(struct executor_stream *stream, const struct scale_args *args);

	void (*gate_interleaved)(struct executor_stream *stream,
				 const struct gate_interleaved_args *args);

	/* --- rows --- */

	void (*copy)(struct executor_stream *stream, const struct copy_args *args);

	void (*deinterleave)(struct executor_stream *stream, const struct deinterleave_args *args);

	/* y[r] = x[rows[r]], for n_rows rows of y. */
	void (*gather)(struct executor_stream *stream, float *y, const float *x,
		       const uint32_t *rows, size_t n_rows, size_t n_cols);

	void (*scatter_add)(struct executor_stream *stream, const struct scatter_add_args *args);

	void (*rms_norm)(struct executor_stream *stream, const struct rms_norm_args *args);
	void (*rope)(struct executor_stream *stream, const struct rope_args *args);
	void (*round_e4m3)(struct executor_stream *stream, const struct round_e4m3_args *args);

	/* Returns the bytes of scratch for the sizes in args; ignores its pointers. */
	uint64_t (*attention_scratch)(const struct attention_args *args);

	/* Scores, and the sums of weighted values, are one chain of fused multiply-adds each, in
	 * the order of features and tokens. */
	void (*attend)(struct executor_stream *stream, const struct attention_args *args);

	/* Returns the bytes of scratch for the sizes in args; ignores its pointers. */
	uint64_t (*scan_scratch)(const struct scan_args *args);

	/* Token by token: an element of S becomes (d x b) + decay S, fused.  The sums of S c are
	 * fused as well, in 16 lanes (head of this file).  skip x is added to them, not fused.  Or
	 * in chunks of tokens, by products of matrices, whose results are within 1e-5 of those, by
	 * the root mean square of y. */
	void (*scan)(struct executor_stream *stream, const struct scan_args *args);

	/* The sums of S c run in the order of the state, in one lane; skip x is added to them. */
	void (*scan_channels)(struct executor_stream *stream,
			      const struct scan_channels_args *args);

	void (*convolve)(struct executor_stream *stream, const struct convolve_args *args);

	void (*delta_gates)(struct executor_stream *stream, const struct delta_gates_args *args);

	/* Returns the bytes of scratch for the sizes in args; ignores its pointers. */
	uint64_t (*delta_scratch)(const struct delta_args *args);

	/* Token by token: the sums of S^T k and S^T q are 4 chains of fused multiply-adds (feature
	 * i in chain i % 4), which are then added pairwise (2, 1 apart).  An element of S becomes
	 * (k d) + a S, fused.  Decays of features multiply S before it is summed, one of all
	 * features multiplies the sums.  Or in chunks, as scan(). */
	void (*delta)(struct executor_stream *stream, const struct delta_args *args);

	void (*cross_entropy)(struct executor_stream *stream,
			      const struct cross_entropy_args *args);

	/* The sums are of no use if p or q have NaN or inf.  Exponentials and differences are
	 * fp32; their products and the sums are fp64. */
	void (*divergence)(struct executor_stream *stream, const struct divergence_args *args);
};

#endif
