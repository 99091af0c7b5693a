/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forward pass does between its products, on the GPU: what src/backend/executor.h says of
 * the functions of the same name (gpu_amax: amax; gpu_copy_rows: copy), with every pointer one of
 * the GPU and aligned to its elements.  They put kernels into the stream and return; a stream
 * that has stopped is left alone.
 *
 * stats, counts: raised and added to, by blocks in any order, which is the same in all of them.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_FORWARD_H
#define FP8CONV_KERNELS_GPU_FORWARD_FORWARD_H

#include "backend/executor.h"
#include "kernels/gpu/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- looking at values --- */

void gpu_amax(struct device_stream *stream, const float *x, size_t n, struct value_stats *stats);
void gpu_round_amax(struct device_stream *stream, float *x, size_t n, struct value_stats *stats);
void gpu_histogram(struct device_stream *stream, const float *x, size_t n, uint64_t *counts);

/* --- element by element --- */

void gpu_round_bf16(struct device_stream *stream, const float *x, size_t n, uint16_t *y);
void gpu_add(struct device_stream *stream, float *x, const float *y, size_t n);
void gpu_add_row(struct device_stream *stream, float *x, const float *row, size_t n_rows,
		 size_t n_cols);
void gpu_gate(struct device_stream *stream, const struct gate_args *args);
void gpu_gate_interleaved(struct device_stream *stream, const float *x, float clamp, size_t n,
			  float *y);

/* --- rows --- */

void gpu_copy_rows(struct device_stream *stream, const struct copy_args *args);
void gpu_deinterleave(struct device_stream *stream, const struct deinterleave_args *args);
void gpu_gather(struct device_stream *stream, float *y, const float *x, const uint32_t *rows,
		size_t n_rows, size_t n_cols);
void gpu_scatter_add(struct device_stream *stream, const struct scatter_add_args *args);
void gpu_rms_norm(struct device_stream *stream, const struct rms_norm_args *args);
void gpu_rope(struct device_stream *stream, const struct rope_args *args);

/* --- attention and loss --- */

/* 64 MiB at most, or what 64 queries take, if that is more.  Not less for more tokens of the same
 * heads. */
uint64_t gpu_attention_scratch(const struct attention_args *args);
void gpu_attend(struct device_stream *stream, const struct attention_args *args);

/* The logarithm is the GPU's logf(), within 1 ulp of the exact one, as libm's is, but not always
 * the same of the two. */
void gpu_cross_entropy(struct device_stream *stream, const struct cross_entropy_args *args);

#ifdef __cplusplus
}
#endif

#endif
