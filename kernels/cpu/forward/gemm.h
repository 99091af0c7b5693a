/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products in high precision for the executor (executor.c): y = x w^T, as in a linear layer.
 * oneDNN, which computes them, is found at run time; commands without products run without it.
 *
 * The same x gives the same y, to the bit, on any number of threads: the calling thread computes
 * the whole product.
 *
 * Order: gemm_open(); gemm_weight_init(), gemm_weight_set() for each panel; gemm_multiply() or
 * gemm_gram(); gemm_weight_release(), gemm_stream_release(), gemm_close().
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_GEMM_H
#define FP8CONV_KERNELS_CPU_FORWARD_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"
#include "base/err.h"
#include "base/mem.h"
#include "num/dtype.h"

struct gemm; /* the library, and its primitives by shape; for all threads */

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

/* Most rows of a panel, for a weight of n rows. */
size_t gemm_panel_rows(size_t n);

/* weight_init(), weight_release() and weight_set() of executor.h.  The data of a weight are its
 * panels in the library's layout. */
int gemm_weight_init(struct gemm *gemm, struct executor_weight *weight, struct err *err);
void gemm_weight_release(struct gemm *gemm, struct executor_weight *weight);
int gemm_weight_set(struct gemm *gemm, const struct executor_weight *weight, size_t panel,
		    const void *rows, struct err *err);

/* executor_ops.multiply(), of at least one row. */
int gemm_multiply(struct gemm *gemm, struct gemm_stream *stream, const struct multiply_args *args,
		  struct err *err);

/* PORTION_GRAM, and executor_ops.gram(). */
size_t gemm_gram_cols(size_t k);
int gemm_gram(struct gemm *gemm, struct gemm_stream *stream, const struct gram_args *args,
	      struct err *err);

#endif
