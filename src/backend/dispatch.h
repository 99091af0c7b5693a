/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing a backend, and calling it with arguments that hold.
 */
#ifndef FP8CONV_BACKEND_DISPATCH_H
#define FP8CONV_BACKEND_DISPATCH_H

#include "backend/backend.h"
#include "base/err.h"

/* name: "auto" (the best usable one; of a GPU only where it has passed its trial here), "cpu" (the
 * best on the CPU), or a backend's own name.  NULL with ERR_USAGE: no such backend (the nearest
 * name is in the message), or this machine cannot run it (the reason is). */
const struct backend *backend_select(const char *name, struct err *err);

/* The same, to run forward passes beside it: "auto" takes a GPU only where its executor has passed
 * its trial too. */
const struct backend *backend_select_forward(const char *name, struct err *err);

/* As the reference is, which is the first and runs everywhere; what is not goes through a trial. */
bool backend_is_of_cpu(const struct backend *backend);

/* The `band` of the backend of that name, as backend_select() reads it; 0 where there is none. */
size_t backend_band(const char *name);

/* Where forward passes run beside it, for the sizes that a plan tells; name NULL is "auto", and so
 * is one that does not run. */
const struct executor_ops *backend_executor(const char *name);

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
		   double *signal, double *noise);
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
