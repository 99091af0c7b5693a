/* SPDX-License-Identifier: Apache-2.0 */
#include "quantizer/quantized_tensor.h"

#include <assert.h>
#include <stdlib.h>

#include "backend/dispatch.h"

void quantized_tensor_release(struct quantized_tensor *t)
{
	free(t->rowwise.codes);
	free(t->rowwise.scale_inv);
	free(t->columnwise.codes);
	free(t->columnwise.scale_inv);
	*t = (struct quantized_tensor){ 0 };
}

void quantized_tensor_dequantize(const struct quantized_tensor *t, const struct backend *backend,
				 enum dtype dtype, void *y, size_t y_stride)
{
	struct quant_in q = { .codes = t->rowwise.codes,
			      .rows = t->rows,
			      .cols = t->cols,
			      .stride = t->cols,
			      .format = t->spec.format,
			      .tile = t->spec.tile,
			      .scale_type = t->spec.scale_type,
			      .scale_inv = t->rowwise.scale_inv,
			      .scale_stride = t->rowwise.grid.row_stride };

	assert(t->rowwise.codes && t->rowwise.grid.col_stride == 1 && !t->rowwise.grid.swizzled);
	backend_dequantize(backend, &q, dtype, y, y_stride);
}
