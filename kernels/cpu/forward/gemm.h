/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in high precision, for the executor (executor.c): y = x w^T, as a linear
 * layer does it.  oneDNN, which does them, is found at run time; what does not multiply runs
 * without it.
 *
 * The same x gives the same y, to the bit, on any number of threads: one product is done by the
 * thread that asks for it.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_GEMM_H
#define FP8CONV_KERNELS_CPU_FORWARD_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "num/dtype.h"

struct gemm;	    /* the library, and what it has made for each shape; serves all threads */
struct gemm_weight; /* one weight, laid out as the library likes it */

/* What one thread works with.  Zeroed is one that has nothing yet. */
struct gemm_stream {
	void *native; /* of the library */
	struct buffer scratch;
};

/* "oneDNN 2.6.3", into a text of size bytes; ERR_SYSTEM as for gemm_open(). */
int gemm_library(char *text, size_t size, struct err *err);

/* ERR_SYSTEM, with the Debian package in the message, where the library is not there. */
int gemm_open(struct gemm **gemm, struct err *err);
void gemm_close(struct gemm *gemm);
void gemm_stream_release(struct gemm *gemm, struct gemm_stream *stream);

/* The type in which bf16 values multiply fastest on this machine: BF16, or F32, which holds the
 * same values. */
enum dtype gemm_bf16_type(void);

/* Room for a weight (n, k) of BF16 or F32: the type of the x it will be multiplied with.  n and k
 * are at least 1.  A weight of many rows lies in panels, in their order: each must be set before it
 * is multiplied, and any thread may do so. */
int gemm_weight_new(struct gemm_weight **weight, struct gemm *gemm, enum dtype dtype, size_t n,
		    size_t k, struct err *err);
void gemm_weight_free(struct gemm_weight *weight);

/* Copies the rows of a panel, k elements each, close together. */
int gemm_weight_set(struct gemm_weight *weight, size_t panel, const void *rows, struct err *err);

/* y (m, n) = x (m, k) w^T, accumulated in fp32.  Rows lie close together; y is overwritten. */
int gemm_run(const struct gemm_weight *weight, struct gemm_stream *stream, const void *x, size_t m,
	     float *y, struct err *err);

/* Panels can be multiplied one by one, so that a few columns of a wide y are at hand at once: y (m,
 * gemm_weight_panel_rows()) = x (m, k) times the rows of that panel. */
size_t gemm_weight_panels(const struct gemm_weight *weight);
size_t gemm_panel_rows(size_t n); /* of a weight of n rows, at most */
size_t gemm_weight_panel_rows(const struct gemm_weight *weight, size_t panel);
int gemm_run_panel(const struct gemm_weight *weight, size_t panel, struct gemm_stream *stream,
		   const void *x, size_t m, float *y, struct err *err);

#endif
