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
#include "backend/head_args.h"
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
	size_t panel_rows; /* rows of each panel but the last: portion(PORTION_WEIGHT, n) */
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

/* What is taken in pieces. */
enum executor_portion {
	PORTION_WEIGHT, /* rows of a panel of a weight of n rows */
	PORTION_ROWS,	/* rows of x: matrices with n values for each stay in the cache between two
			* operations */
	PORTION_GRAM,	/* columns of a panel of gram(), for x with n columns: as many as are worth
			* reading x once more */
};

/* The operations between products: each is a member of executor_ops, whose contract stands at its
 * arguments. */
/* clang-format off */
#define EXECUTOR_OPERATIONS(OP)                                                          \
	OP(measure) OP(round) OP(add) OP(gate) OP(scale) OP(copy) OP(rms_norm) OP(rope)  \
	OP(mix_streams) OP(round_e4m3) OP(route) OP(sort_choices) OP(take_rows)          \
	OP(combine) OP(choose_keys) OP(attention) OP(scan) OP(scan_channels)             \
	OP(convolve) OP(delta) OP(cross_entropy) OP(divergence)
/* clang-format on */

/* The work that keeps a device busy. */
struct executor_load {
	size_t tokens; /* whose product takes as long as loading the weights */
	/* the threads of a command are by default at most so many for each device, and at least
	 * half of them.  0: the CPUs compute, a thread for each */
	int streams;
	/* the rows of several sequences are multiplied together (struct multiply_args); false: each
	 * sequence is multiplied alone */
	bool grouped;
};

struct executor_ops {
	const char *name; /* "cpu" */
	struct executor_load load;

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

	/* Returns how much of a matrix to take at a time, at least 1. */
	size_t (*portion)(enum executor_portion what, size_t n);

	/* Allocates the weight, or fails as memory_new().  The caller has set all members but
	 * data. */
	int (*weight_init)(struct executor_weight *weight, struct err *err);
	void (*weight_release)(struct executor_weight *weight);

	/* Copies the rows of a panel from the host: k elements each, of weight->dtype.  Called once
	 * for each panel, before the panel is multiplied, by any thread. */
	int (*weight_set)(const struct executor_weight *weight, size_t panel, const void *rows,
			  struct err *err);

	void (*multiply)(struct executor_stream *stream, const struct multiply_args *args);

	/* Adds x^T x to a panel of h, and writes nothing else.  Products are exact, sums fp32: the
	 * tokens of one call are summed up and added to h, or a few hundred tokens at a time, in
	 * order.  So h depends on the calls with x, and on their order, not on streams, several of
	 * which may work on panels of one h.  With m of 0 it does nothing. */
	void (*gram)(struct executor_stream *stream, const struct gram_args *args);

	/* Returns the bytes of scratch that is enough for each operation in args, by its sizes. */
	uint64_t (*scratch)(const struct scratch_args *args);

	/* --- FP8 --- */

	void (*round_fp8)(struct executor_stream *stream, const struct round_fp8_args *args);

	/* --- between products --- */

#define EXECUTOR_MEMBER(op) \
	void (*op)(struct executor_stream * stream, const struct op##_args *args);
	EXECUTOR_OPERATIONS(EXECUTOR_MEMBER)
#undef EXECUTOR_MEMBER
};

#endif
