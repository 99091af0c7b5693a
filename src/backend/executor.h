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

#include "backend/executor_args.h"
#include "backend/expert_args.h"
#include "base/err.h"
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

struct executor_ops {
	const char *name; /* "cpu" */
	/* the number of tokens whose product takes as long as loading the weights */
	size_t tokens_per_load;
	/* The streams that keep a device busy: the threads of a command are by default at least
	 * and at most so many for each.  0: the CPUs compute, a thread for each. */
	int min_streams, max_streams;

	/* Writes the library of the products and its version, such as "oneDNN 2.6.3", to a text of
	 * size bytes.  ERR_SYSTEM with the missing library. */
	int (*library)(char *text, size_t size, struct err *err);

	/* Opens the executor on one of backend_n_devices() devices, from 0 on; 0 for the CPU.
	 * ERR_SYSTEM with the missing library or device.  Here and below, a function that frees
	 * accepts NULL. */
	int (*open)(struct executor **executor, int device, struct err *err);
	void (*close)(struct executor *executor);

	int (*stream_new)(struct executor_stream **stream, struct executor *executor,
			  struct err *err);
	void (*stream_free)(struct executor_stream *stream);

	/* Waits until all work of the stream is done.  Returns 0, or the first failure since the
	 * last wait(). */
	int (*wait)(struct executor_stream *stream, struct err *err);

	/* --- memory --- */

	/* Returns the bytes that are free on a device now, released weights included.  NULL:
	 * the memory is the host's, and others need it too. */
	uint64_t (*memory_left)(int device);

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

	void (*round)(struct executor_stream *stream, const struct round_args *args);

	/* Counts each value: counts[2 * (bits of |x| >> 20)]++. The bin is the exponent and 3 bits
	 * of the mantissa: 2048 counts, which use every second element. */
	void (*histogram)(struct executor_stream *stream, const float *x, size_t n,
			  uint64_t *counts);

	/* --- element by element --- */

	/* y = bf16(x), to nearest even. */
	void (*round_bf16)(struct executor_stream *stream, const float *x, size_t n, uint16_t *y);

	void (*add)(struct executor_stream *stream, const struct add_args *args);

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

	/* The same bits as those functions of any backend.  Does not wait. */
	void (*round_fp8)(struct executor_stream *stream, const struct round_fp8_args *args);

	/* --- experts --- */

	/* The softmax over all experts is exp(score - log of the sum of exponentials); the
	 * logarithm is a library's. */
	void (*route)(struct executor_stream *stream, const struct route_args *args);

	void (*sort_choices)(struct executor_stream *stream, const struct sort_choices_args *args);

	/* The four below are for rows of several sequences, which are multiplied together.  All are
	 * NULL: each sequence is multiplied alone, by multiply(). */

	/* As multiply(); a row of y has the same bits for any m and any other rows of x: one
	 * algorithm for each (n, k), which splits no sum over k by m. */
	void (*multiply_rows)(struct executor_stream *stream, const struct executor_weight *weight,
			      const void *x, size_t m, float *y);

	void (*take_rows)(struct executor_stream *stream, const struct take_rows_args *args);
	void (*round_rows_fp8)(struct executor_stream *stream,
			       const struct round_rows_fp8_args *args);
	void (*gate_rows)(struct executor_stream *stream, const struct gate_rows_args *args);
	void (*combine)(struct executor_stream *stream, const struct combine_args *args);

	/* --- attention, scans and loss --- */

	/* Returns the bytes of scratch for the sizes in args; ignores its pointers. */
	uint64_t (*attention_scratch)(const struct attention_args *args);

	/* Scores, and the sums of weighted values, are one chain of fused multiply-adds each, in
	 * the order of features and tokens.  With args.f16 they may be products of fp16 instead,
	 * if there are more than 1024 tokens. */
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

/* Whether it multiplies rows of several sequences together. */
static inline bool executor_groups(const struct executor_ops *ops)
{
	return ops->multiply_rows != NULL;
}

#endif
