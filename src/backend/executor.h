/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a forward pass runs: memory, matrix products in high precision, and what a transformer
 * computes between them, in fp32.
 *
 * All values lie in the memory of the executor, which may not be the host's.  Work is put into a
 * stream, which does it in order; it is done when executor_ops.wait() says so.  A stream is used by
 * one thread at a time.  What fails is remembered by the stream: what comes after it has no
 * meaning, and wait() tells.
 *
 * The same input gives the same bits, on any number of streams.  Every executor gives the same
 * bits, but for the sums of products (a library's): sums run in 16 lanes (element i in lane i %
 * 16), which are then added pairwise (8, 4, 2, 1 apart), and no product is contracted with a sum,
 * unless said below.
 *
 * Matrices are row-major with rows close together, unless a stride (in elements) is given.  n of 0
 * is nothing to do.
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

/* Opened; serves all threads.  The executor's own is behind it. */
struct executor {
	const struct executor_ops *ops;
};

/* What one thread works with.  The executor's own is behind it. */
struct executor_stream {
	struct executor *executor;
};

/* A weight (n, k) that x (m, k) is multiplied with.  One of many rows lies in panels, in their
 * order. */
struct executor_weight {
	struct executor *executor;
	enum dtype dtype;  /* its own, and that of x: BF16 or F32 */
	size_t n, k;	   /* at least 1 */
	size_t panel_rows; /* of each panel but the last: executor_ops.panel_rows() of n */
	void *data;	   /* the executor's */
};

static inline size_t executor_weight_panels(const struct executor_weight *weight)
{
	return (weight->n + weight->panel_rows - 1) / weight->panel_rows;
}

static inline size_t executor_weight_panel_rows(const struct executor_weight *weight, size_t panel)
{
	size_t left = weight->n - panel * weight->panel_rows;

	return left < weight->panel_rows ? left : weight->panel_rows;
}

/* What has been seen of some values: max |x| (NaN is ignored, inf counts), and how many are NaN or
 * infinite.  Zeroed is that of no values. */
struct value_stats {
	uint64_t n_nonfinite;
	float amax;
	uint32_t padding;
};

/* Rows that begin `stride` elements apart. */
struct rows_in {
	const float *data;
	size_t stride;
};

struct rows_out {
	float *data;
	size_t stride;
};

/* y = activation(gate) * up: ACT_SILU or ACT_GELU (num/activation.h).  y may be gate or up, if
 * their strides are equal. */
struct gate_args {
	enum activation activation;
	struct rows_in gate, up;
	size_t n_rows, n_cols;
	struct rows_out y;
};

/* y[r] = x[r / repeat].  They do not overlap. */
struct copy_args {
	struct rows_out y;
	struct rows_in x;
	size_t repeat, n_rows, n_cols;
};

/* Pairs that lie side by side come to lie half a length apart: y[i] = x[2 i], y[i + n_cols / 2] =
 * x[2 i + 1].  They do not overlap. */
struct deinterleave_args {
	struct rows_out y;
	struct rows_in x;
	size_t n_rows, n_cols;
};

/* y[rows[r]] += factors[r] * x[r].  No row comes twice. */
struct scatter_add_args {
	float *y;
	const float *x;
	const uint32_t *rows;
	const float *factors;
	size_t n_rows, n_cols;
};

/* y = x * (1 / sqrt(mean(x^2) + eps)) * (offset + weight), row by row; y may be x. */
struct rms_norm_args {
	struct rows_in x;
	const float *weight; /* (n_cols) */
	float offset, eps;
	size_t n_rows, n_cols;
	struct rows_out y;
};

/* Rotates pairs (i, i + rope_dim / 2) of the first rope_dim of each head's head_dim values, in
 * place. */
struct rope_args {
	struct rows_out x; /* a token, of n_heads heads, in a row */
	size_t n_tokens, n_heads, head_dim;
	const float *cosines, *sines; /* (n_tokens, rope_dim / 2), of the angles */
	size_t rope_dim;
};

/* The causal attention of a sequence: a query sees its own token and those before it. */
struct attention_args {
	size_t n_tokens, n_heads, n_kv_heads, head_dim,
		value_dim;    /* n_heads: a multiple of n_kv_heads */
	size_t window;	      /* tokens that a query sees; 0: all */
	float scale, softcap; /* scores times scale; c tanh(x / c) of that, 0: not */
	/* (n_heads): one more score each, that takes its share of the sum and has no value; or
	 * NULL */
	const float *sinks;
	/* v: (n_tokens, n_heads * head_dim), (n_tokens, n_kv_heads * head_dim or value_dim) */
	const float *q, *k, *v;
	float *y;      /* (n_tokens, n_heads * value_dim) */
	void *scratch; /* of attention_scratch() bytes */
};

/* The last step: logits to what is lost. */
struct cross_entropy_args {
	/* (n_rows, n_cols): columns [first, first + n_cols) of a wider matrix; capped in place */
	float *logits;
	size_t n_rows, n_cols, first;
	float softcap;		/* 0: not */
	const uint32_t *labels; /* (n_rows) */
	float *log_sums;	/* (n_rows): written, log(sum exp) of each row */
	float *label_logits;	/* (n_rows): written where the label is one of the columns */
};

struct executor_ops {
	const char *name; /* "cpu" */
	/* that weights multiply in about the time that they take to load, be they few or many */
	size_t tokens_per_load;

	/* What multiplies, with its version: "oneDNN 2.6.3", in a text of size bytes.  ERR_SYSTEM
	 * with what is missing. */
	int (*library)(char *text, size_t size, struct err *err);

	/* ERR_SYSTEM with what is missing: a library, a device. */
	int (*open)(struct executor **executor, struct err *err);
	void (*close)(
		struct executor *executor); /* here and below, what is given back may be NULL */

	int (*stream_new)(struct executor_stream **stream, struct executor *executor,
			  struct err *err);
	void (*stream_free)(struct executor_stream *stream);

	/* 0: all that was put into the stream is done; else what failed since the last time. */
	int (*wait)(struct executor_stream *stream, struct err *err);

	/* --- memory --- */

	/* what: for the message, with the size wanted. */
	int (*memory_new)(struct executor *executor, void **memory, uint64_t size, const char *what,
			  struct err *err);
	void (*memory_free)(struct executor *executor, void *memory);
	void (*zero)(struct executor_stream *stream, void *memory, size_t size);

	/* From the host, and to it: its memory is used until wait(). */
	void (*put)(struct executor_stream *stream, void *to, const void *from, size_t size);
	void (*fetch)(struct executor_stream *stream, void *to, const void *from, size_t size);

	/* --- products --- */

	/* The type in which bf16 values multiply fastest: BF16, or F32, which holds the same
	 * values. */
	enum dtype (*bf16_type)(void);

	/* panel_rows of a weight of n rows. */
	size_t (*panel_rows)(size_t n);

	/* Rows of x that are best taken at a time through matrices which read and write n values
	 * for each, so that these are still near when they are looked at: at least 1. */
	size_t (*rows)(size_t n);

	/* All but data is known. */
	int (*weight_init)(struct executor_weight *weight, struct err *err);
	void (*weight_release)(struct executor_weight *weight);

	/* Copies the rows of a panel, k elements each, of weight->dtype and the host's: once,
	 * before the panel is multiplied, by any thread. */
	int (*weight_set)(const struct executor_weight *weight, size_t panel, const void *rows,
			  struct err *err);

	/* y (m, n) = x (m, k) w^T, accumulated in fp32; x of weight->dtype. */
	void (*multiply)(struct executor_stream *stream, const struct executor_weight *weight,
			 const void *x, size_t m, float *y);

	/* y (m, executor_weight_panel_rows()) = x (m, k) times the rows of that panel. */
	void (*multiply_panel)(struct executor_stream *stream, const struct executor_weight *weight,
			       size_t panel, const void *x, size_t m, float *y);

	/* --- looking at values --- */

	void (*amax)(struct executor_stream *stream, const float *x, size_t n,
		     struct value_stats *stats);

	/* The same of x rounded to bf16, in place. */
	void (*round_amax)(struct executor_stream *stream, float *x, size_t n,
			   struct value_stats *stats);

	/* counts[2 * (bits of |x| >> 20)]++: exponent and 3 bits of the mantissa, 2048 counts, each
	 * second one. */
	void (*histogram)(struct executor_stream *stream, const float *x, size_t n,
			  uint64_t *counts);

	/* --- element by element --- */

	/* y = bf16(x), to nearest even. */
	void (*round_bf16)(struct executor_stream *stream, const float *x, size_t n, uint16_t *y);

	void (*add)(struct executor_stream *stream, float *x, const float *y,
		    size_t n); /* x += y */

	/* Each row of x += row. */
	void (*add_row)(struct executor_stream *stream, float *x, const float *row, size_t n_rows,
			size_t n_cols);

	void (*gate)(struct executor_stream *stream, const struct gate_args *args);

	/* GPT-OSS: of pairs (gate, up), side by side, (up + 1) gate sigmoid(1.702 gate), clamped
	 * before: gate from above, up from both sides.  y has n values, x 2 n; they do not
	 * overlap. */
	void (*gate_interleaved)(struct executor_stream *stream, const float *x, float clamp,
				 size_t n, float *y);

	/* --- rows --- */

	void (*copy)(struct executor_stream *stream, const struct copy_args *args);

	void (*deinterleave)(struct executor_stream *stream, const struct deinterleave_args *args);

	/* y[r] = x[rows[r]]. */
	void (*gather)(struct executor_stream *stream, float *y, const float *x,
		       const uint32_t *rows, size_t n_rows, size_t n_cols);

	void (*scatter_add)(struct executor_stream *stream, const struct scatter_add_args *args);

	void (*rms_norm)(struct executor_stream *stream, const struct rms_norm_args *args);
	void (*rope)(struct executor_stream *stream, const struct rope_args *args);

	/* Bytes for the sizes in args; pointers are not looked at. */
	uint64_t (*attention_scratch)(const struct attention_args *args);

	/* Scores and their shares of values are one chain of fused multiply-adds each, in the order
	 * of features and tokens. */
	void (*attend)(struct executor_stream *stream, const struct attention_args *args);

	void (*cross_entropy)(struct executor_stream *stream,
			      const struct cross_entropy_args *args);
};

#endif
