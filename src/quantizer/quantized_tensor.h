/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix in FP8: its rowwise copy, its columnwise copy, or both, with the scale_inv of each, as
 * TransformerEngine keeps them for its GEMMs.  Columnwise codes are the transpose (cols, rows); for
 * E8M0 blocks they stay (rows, cols), as MXFP8 GEMMs require.
 */
#ifndef FP8CONV_QUANTIZER_QUANTIZED_TENSOR_H
#define FP8CONV_QUANTIZER_QUANTIZED_TENSOR_H

#include <stddef.h>

#include "backend/backend.h"

/* A zeroed struct has no copies; quantizer_make_empty() (quantizer.h) allocates them. */
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

#endif
