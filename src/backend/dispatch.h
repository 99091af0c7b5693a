/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing a backend, and calling it with arguments that hold.
 */
#ifndef FP8CONV_BACKEND_DISPATCH_H
#define FP8CONV_BACKEND_DISPATCH_H

#include "backend/backend.h"
#include "base/err.h"

/* name: "auto" (or NULL) and "cpu" are the best one on the CPU; else a backend's own name.  NULL
 * with ERR_USAGE: no such backend (the nearest name is in the message), or this machine cannot run
 * it (the reason is). */
const struct backend *backend_select(const char *name, struct err *err);

/* The same to run forward passes beside it: "auto" takes a device that this machine has and that
 * passes its self-test.  The test takes a moment, so a program asks once.  *refused: ERR_SYSTEM
 * with what failed in that test, else ERR_NONE. */
const struct backend *backend_select_forward(const char *name, struct err *refused,
					     struct err *err);

/* 0, or what failed on the calling thread since it last asked, which was all for one tensor: then
 * what was written is not to be believed. */
int backend_failed(const struct backend *backend, const char *tensor, struct err *err);

/* The functions of struct backend.  A wrong argument is a mistake of the caller: an assertion. */
void backend_amax(const struct backend *backend, const struct matrix *x, struct tile tile,
		  float *amax, size_t amax_stride, uint64_t *n_nonfinite);
void backend_quantize(const struct backend *backend, const struct matrix *x,
		      const struct qspec *spec, const struct quant_out *out);
void backend_cast(const struct backend *backend, const struct matrix *x, const struct qspec *spec,
		  const float *amax, size_t amax_stride, const struct quant_out *out);
void backend_dequantize(const struct backend *backend, const struct quant_in *q, enum dtype dtype,
			void *y, size_t y_stride);
void backend_error(const struct backend *backend, const struct matrix *x, const struct quant_in *q,
		   struct error_stats *stats);
int backend_supports(const struct backend *backend, const struct qspec *spec, struct err *err);
void backend_cast_transpose(const struct backend *backend, const struct matrix *x,
			    const struct qspec *spec, const struct fp8_out *out);
void backend_norm(const struct backend *backend, const struct norm_args *args,
		  const struct qspec *spec, const struct fp8_out *out);
void backend_activate(const struct backend *backend, const struct activation_args *args,
		      const struct qspec *spec, const struct fp8_out *out);

/* 0, or what failed: then histories and scales are as they were. */
int backend_delayed_update(const struct backend *backend, const struct delayed_slots *slots,
			   size_t n, struct err *err);

#endif
