/* SPDX-License-Identifier: Apache-2.0
 *
 * A quantizer quantizes the tensor of one slot of a recipe state: it has the spec, the copies that
 * a GEMM needs, and for delayed scaling the slot's scale and amax.  In the other recipes the
 * backend computes scales from the tensor.
 *
 * Order: quantizer_make_empty() once a shape, then quantizer_quantize() for each tensor; or
 * quantizer_calibrate() in place of both.
 */
#ifndef FP8CONV_QUANTIZER_QUANTIZER_H
#define FP8CONV_QUANTIZER_QUANTIZER_H

#include <stddef.h>

#include "backend/backend.h"

/* A matrix in FP8: its rowwise copy, its columnwise copy, or both, with the scale_inv of each, as
 * TransformerEngine keeps them for its GEMMs.  Columnwise codes are the transpose (cols, rows); for
 * E8M0 blocks they stay (rows, cols), as MXFP8 GEMMs require.  A zeroed struct has no copies;
 * quantizer_make_empty() allocates them. */
struct quantized_tensor {
	size_t rows, cols;
	struct qspec spec;
	struct fp8_copy rowwise, columnwise; /* codes NULL: no copy */
};

void quantized_tensor_release(struct quantized_tensor *t);

/* Writes the values of the rowwise copy to y[row * y_stride + col], of dtype.  Its scale_inv must
 * be row-major, as with SCALES_COMPACT. */
void quantized_tensor_dequantize(const struct quantized_tensor *t, const struct backend *backend,
				 enum dtype dtype, void *y, size_t y_stride);

struct quantizer {
	struct qspec spec;
	bool rowwise, columnwise; /* usage: copies to make, which a module may change */
	enum scale_order order;
	const float *scale; /* of this step, in the state; NULL: not delayed scaling */
	float *amax;	    /* h[0] in the state, a running maximum; NULL if scale is */
};

/* Allocates the copies of a tensor (rows, cols) in t, with scale_inv zeroed so that its padding
 * stays zero.  The caller releases t.  ERR_SYSTEM with the requested size. */
int quantizer_make_empty(const struct quantizer *q, size_t rows, size_t cols,
			 struct quantized_tensor *t, struct err *err);

/* Writes the codes and scale_inv of every copy of t, which quantizer_make_empty() allocated for the
 * shape of x with the same usage.  Delayed scaling also raises the slot's amax.  stats: as in
 * backend/backend.h. */
void quantizer_quantize(const struct quantizer *q, const struct backend *backend,
			const struct matrix *x, struct quantized_tensor *t,
			struct quant_stats *stats);

/* Returns the destination for an operation with FP8 output (backend_norm(), backend_activate())
 * that writes t. */
struct fp8_out quantizer_out(const struct quantizer *q, const struct quantized_tensor *t,
			     struct quant_stats *stats);

/* Raises the slot's amax to that of x and adds the number of NaN and inf in x to *n_nonfinite.
 * Without delayed scaling it does neither. */
void quantizer_calibrate(const struct quantizer *q, const struct backend *backend,
			 const struct matrix *x, uint64_t *n_nonfinite);

#endif
