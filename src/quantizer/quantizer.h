/* SPDX-License-Identifier: Apache-2.0
 *
 * A quantizer is what a module knows of one slot of a recipe state: how its tensor is quantized,
 * which copies a GEMM wants, and for delayed scaling the slot's scale and amax.  In the other
 * recipes the backend takes scales from the tensor itself.
 */
#ifndef FP8CONV_QUANTIZER_QUANTIZER_H
#define FP8CONV_QUANTIZER_QUANTIZER_H

#include "quantizer/quantized_tensor.h"

struct quantizer {
	struct qspec spec;
	bool rowwise,
		columnwise; /* usage: the copies that are made; a module changes it as it likes */
	enum scale_order order;
	const float *scale; /* the state's, of this step; NULL: not delayed scaling */
	float *amax;	    /* the state's h[0], a running max; NULL with scale */
};

/* Memory for the copies that the quantizer makes of (rows, cols), scale_inv zeroed: its padding
 * stays zero.  ERR_SYSTEM with the size wanted. */
int quantizer_make_empty(const struct quantizer *q, size_t rows, size_t cols,
			 struct quantized_tensor *t, struct err *err);

/* Codes and scale_inv of every copy of t, which quantizer_make_empty() of this usage made for x's
 * shape; delayed scaling also raises the slot's amax. */
void quantizer_quantize(const struct quantizer *q, const struct backend *backend,
			const struct matrix *x, struct quantized_tensor *t,
			struct quant_stats *stats);

/* Where an operation with FP8 output (backend_norm(), backend_activate()) writes t. */
struct fp8_out quantizer_out(const struct quantizer *q, const struct quantized_tensor *t,
			     struct quant_stats *stats);

/* x stays as it is, and the slot's amax is raised to its; nothing without delayed scaling.
 * *n_nonfinite += the NaN and inf seen. */
void quantizer_calibrate(const struct quantizer *q, const struct backend *backend,
			 const struct matrix *x, uint64_t *n_nonfinite);

#endif
