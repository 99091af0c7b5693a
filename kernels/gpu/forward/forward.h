/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of a forward pass between its products, on the GPU, with the contracts of the
 * functions of the same names in src/backend/executor.h (gpu_amax: amax; gpu_copy_rows: copy);
 * every pointer is one of the GPU and aligned to its elements.  They add kernels to the stream and
 * return; they do nothing on a stream that has stopped.
 *
 * Blocks raise stats and add to counts in any order, which gives the same result.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_FORWARD_H
#define FP8CONV_KERNELS_GPU_FORWARD_FORWARD_H

#include "backend/executor.h"
#include "kernels/gpu/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- statistics of values --- */

void gpu_amax(struct device_stream *stream, const float *x, size_t n, struct value_stats *stats);
void gpu_round(struct device_stream *stream, const struct round_args *args);
void gpu_histogram(struct device_stream *stream, const float *x, size_t n, uint64_t *counts);

/* --- element by element --- */

void gpu_round_bf16(struct device_stream *stream, const float *x, size_t n, uint16_t *y);
void gpu_add(struct device_stream *stream, const struct add_args *args);
void gpu_add_row(struct device_stream *stream, float *x, const float *row, size_t n_rows,
		 size_t n_cols);
void gpu_gate(struct device_stream *stream, const struct gate_args *args);
void gpu_activate(struct device_stream *stream, enum activation activation, const float *x,
		  size_t n, float *y);
void gpu_scale(struct device_stream *stream, const struct scale_args *args);
void gpu_gate_interleaved(struct device_stream *stream, const struct gate_interleaved_args *args);

/* --- rows --- */

void gpu_copy_rows(struct device_stream *stream, const struct copy_args *args);
void gpu_deinterleave(struct device_stream *stream, const struct deinterleave_args *args);
void gpu_gather(struct device_stream *stream, float *y, const float *x, const uint32_t *rows,
		size_t n_rows, size_t n_cols);
void gpu_scatter_add(struct device_stream *stream, const struct scatter_add_args *args);
void gpu_rms_norm(struct device_stream *stream, const struct rms_norm_args *args);
void gpu_rope(struct device_stream *stream, const struct rope_args *args);
void gpu_round_e4m3(struct device_stream *stream, const struct round_e4m3_args *args);
void gpu_round_fp8(struct device_stream *stream, const struct round_fp8_args *args);

/* --- experts --- */

/* The logarithm is the GPU's logf(), as that of gpu_cross_entropy(). */
void gpu_route(struct device_stream *stream, const struct route_args *args);
void gpu_sort_choices(struct device_stream *stream, const struct sort_choices_args *args);
void gpu_round_rows_fp8(struct device_stream *stream, const struct round_rows_fp8_args *args);
void gpu_take_rows(struct device_stream *stream, const struct take_rows_args *args);
void gpu_gate_rows(struct device_stream *stream, const struct gate_rows_args *args);
void gpu_combine(struct device_stream *stream, const struct combine_args *args);

/* --- attention, scan and loss --- */

/* Returns at most 64 MiB, or the bytes for 64 queries, if those are more.  More tokens of the same
 * heads never need less. */
uint64_t gpu_attention_scratch(const struct attention_args *args);
void gpu_attend(struct device_stream *stream, const struct attention_args *args);

uint64_t gpu_scan_scratch(const struct scan_args *args);
void gpu_scan(struct device_stream *stream, const struct scan_args *args);

void gpu_scan_channels(struct device_stream *stream, const struct scan_channels_args *args);
void gpu_convolve(struct device_stream *stream, const struct convolve_args *args);
void gpu_delta_gates(struct device_stream *stream, const struct delta_gates_args *args);
uint64_t gpu_delta_scratch(const struct delta_args *args); /* 0 */
void gpu_delta(struct device_stream *stream, const struct delta_args *args);

/* The logarithm is the GPU's logf(), within 1 ulp of the exact one, as libm's is; the two may
 * differ. */
void gpu_cross_entropy(struct device_stream *stream, const struct cross_entropy_args *args);
void gpu_divergence(struct device_stream *stream, const struct divergence_args *args);

#ifdef __cplusplus
}
#endif

#endif
