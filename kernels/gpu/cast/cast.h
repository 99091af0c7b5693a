/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations on matrices in the memory of the GPU, with the contracts of the functions of the
 * same names in src/backend/backend.h; every pointer is one of the GPU.  They add kernels to the
 * stream and return.  Scales are aligned to their size; scratch memory is taken from the stream.
 *
 * cast.cu has the kernels of gpu_tile_amax() and gpu_cast(), which serve norms and activations too;
 * each other function is in the file of its name.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_CAST_H
#define FP8CONV_KERNELS_GPU_CAST_CAST_H

#include "backend/device_ops.h"
#include "kernels/gpu/device.h"

/* counts[0] += nonfinite; counts[1] += saturated. */
#define N_COUNTS 2

/* Raises amax[], a matrix without gaps; transposed: that of x's transpose. */
void gpu_tile_amax(struct device_stream *stream, const struct matrix *x, struct tile tile,
		   bool transposed, float *amax, unsigned long long *counts);

/* amax: of each tile of the rowwise copy if it is known, else NULL.  Ignores out->stats. */
void gpu_cast(struct device_stream *stream, const struct matrix *x, const struct qspec *spec,
	      const float *amax, const struct fp8_out *out, unsigned long long *counts);

void gpu_dequantize(struct device_stream *stream, const struct quant_in *q, enum dtype dtype,
		    void *y, size_t y_stride);

void gpu_dequantize_scattered(struct device_stream *stream, const struct fp8_scattered *from,
			      enum dtype dtype, void *y, size_t y_stride);

void gpu_norm(struct device_stream *stream, const struct norm_args *args, const struct qspec *spec,
	      const struct fp8_out *out, unsigned long long *counts);

void gpu_activate(struct device_stream *stream, const struct activation_args *args,
		  const struct qspec *spec, const struct fp8_out *out, unsigned long long *counts);

#endif
