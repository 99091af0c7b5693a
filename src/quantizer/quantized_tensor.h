/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix in FP8: its rowwise copy, its columnwise copy, or both, with the scale_inv of each, as
 * TransformerEngine keeps them for its GEMMs.  Columnwise codes are the transpose (cols, rows),
 * save for E8M0 blocks, whose codes stay (rows, cols) as MXFP8 GEMMs want them.
 */
#ifndef FP8CONV_QUANTIZER_QUANTIZED_TENSOR_H
#define FP8CONV_QUANTIZER_QUANTIZED_TENSOR_H

#include <stddef.h>

#include "backend/backend.h"

/* A zeroed struct is one without copies; quantizer_make_empty() (quantizer.h) makes others. */
struct quantized_tensor {
	size_t rows, cols;
	struct qspec spec;
	struct fp8_copy rowwise, columnwise; /* codes NULL: not there */
};

void quantized_tensor_release(struct quantized_tensor *t);

/* y[row * y_stride + col] of dtype, from the rowwise copy, whose scale_inv is row-major
 * (SCALES_COMPACT is). */
void quantized_tensor_dequantize(const struct quantized_tensor *t, const struct backend *backend,
				 enum dtype dtype, void *y, size_t y_stride);

#endif
