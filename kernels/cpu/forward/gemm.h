/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products in high precision for the executor (executor.c): y = x w^T, as in a linear layer.
 * oneDNN, which computes them, is found at run time; commands without products run without it.
 *
 * The same x gives the same y, to the bit, on any number of threads: the calling thread computes
 * the whole product.
 *
 * Order: gemm_open(); gemm_weight_new(), gemm_weight_set() for each panel; gemm_run(),
 * gemm_run_panel() or gemm_gram(); gemm_weight_free(), gemm_stream_release(), gemm_close().
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_GEMM_H
#define FP8CONV_KERNELS_CPU_FORWARD_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"
#include "base/err.h"
#include "base/mem.h"
#include "num/dtype.h"

struct gemm;	    /* the library, and its primitives by shape; for all threads */
struct gemm_weight; /* one weight, in the library's layout */

/* The memory of one thread.  A zeroed struct is empty. */
struct gemm_stream {
	void *native; /* of the library */
	struct buffer scratch;
};

/* Writes "oneDNN 2.6.3" to a text of size bytes.  ERR_SYSTEM as for gemm_open(). */
int gemm_library(char *text, size_t size, struct err *err);

/* Finds the library.  ERR_SYSTEM, with the package to install, if it is missing. */
int gemm_open(struct gemm **gemm, struct err *err);
void gemm_close(struct gemm *gemm);
void gemm_stream_release(struct gemm *gemm, struct gemm_stream *stream);

/* Returns the type in which bf16 values multiply fastest on this machine: BF16, or F32, which holds
 * the same values. */
enum dtype gemm_bf16_type(void);

/* Returns the fewest rows of x that multiply about as fast as many. */
size_t gemm_min_rows(void);

/* Allocates a weight (n, k) of BF16 or F32, which is also the type of its x.  n and k are at least
 * 1.  A weight of many rows is split into panels, in order: any thread may set a panel, and each
 * must be set before it is multiplied. */
int gemm_weight_new(struct gemm_weight **weight, struct gemm *gemm, enum dtype dtype, size_t n,
		    size_t k, struct err *err);
void gemm_weight_free(struct gemm_weight *weight);

/* Copies the rows of a panel, k elements each, without gaps. */
int gemm_weight_set(struct gemm_weight *weight, size_t panel, const void *rows, struct err *err);

/* y (m, n) = x (m, k) w^T, accumulated in fp32.  Rows have no gaps; y is overwritten. */
struct gemm_product {
	const void *x; /* of the weight's type */
	size_t m;
	float *y;
};

int gemm_run(const struct gemm_weight *weight, struct gemm_stream *stream,
	     const struct gemm_product *product, struct err *err);

/* Panels can be multiplied one by one, so that a wide y needs only a few columns of memory: y (m,
 * gemm_weight_panel_rows()) = x (m, k) times the transposed rows of that panel. */
size_t gemm_weight_panels(const struct gemm_weight *weight);
size_t gemm_panel_rows(size_t n); /* most rows of a panel, for a weight of n rows */
size_t gemm_weight_panel_rows(const struct gemm_weight *weight, size_t panel);
int gemm_run_panel(const struct gemm_weight *weight, size_t panel, struct gemm_stream *stream,
		   const struct gemm_product *product, struct err *err);

/* PORTION_GRAM, and executor_ops.gram(). */
size_t gemm_gram_cols(size_t k);
int gemm_gram(struct gemm *gemm, struct gemm_stream *stream, const struct gram_args *args,
	      struct err *err);

#endif
