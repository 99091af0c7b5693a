/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses a backend, and calls it with checked arguments.
 *
 * Order: backend_select() or backend_select_forward() once, in cli/; then any of the calls below on
 * any thread; backend_failed() on the same thread before the results are used.
 */
#ifndef FP8CONV_BACKEND_DISPATCH_H
#define FP8CONV_BACKEND_DISPATCH_H

#include "backend/backend.h"
#include "base/err.h"

/* Returns the named backend; "auto" (or NULL) and "cpu" mean the best one on the CPU.  Returns NULL
 * with ERR_USAGE for an unknown name (the message has the nearest one) and for a backend that this
 * machine cannot run (the message has the reason). */
const struct backend *backend_select(const char *name, struct err *err);

/* Returns the number of devices that this process can use besides the CPU.  The second makes it use
 * n >= 1 of them alone, by their numbers from 0 on, in that order: work that goes to "the first
 * device" goes to devices[0].  At most once, before any other work of a device, which includes
 * backend_select_forward(). */
int backend_n_devices(void);
void backend_use_devices(const int *devices, int n);

/* Returns what works on matrices in the memory of a device; NULL with ERR_USAGE and the reason. */
const struct device_ops *backend_in_place(struct err *err);

/* Returns a backend for forward passes on the first n_devices devices: "auto" takes those that this
 * machine has, if all of them pass their self-test.  The test takes a moment, so a program calls
 * this once.  *refused becomes ERR_SYSTEM with the failure of that test, else ERR_NONE.  Returns
 * NULL as backend_select() does. */
const struct backend *backend_select_forward(const char *name, int n_devices, struct err *refused,
					     struct err *err);

/* Returns 0, or the failure of the calls on this thread since the last backend_failed(), which must
 * all be of the named tensor.  On failure their results are invalid. */
int backend_failed(const struct backend *backend, const char *tensor, struct err *err);

/* The functions of struct backend, with its contracts.  Arguments that break them are a mistake of
 * the caller and fail an assertion. */
void backend_amax(const struct backend *backend, const struct matrix *x, struct tile tile,
		  float *amax, size_t amax_stride, uint64_t *n_nonfinite);
bool backend_quantize_fp4(const struct backend *backend, const struct fp4_matrix *x,
			  const struct qspec *spec, const struct quant_out *out,
			  uint64_t *n_changed);
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

#endif
