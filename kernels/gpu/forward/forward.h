/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of a forward pass between its products, on the GPU, with the contracts of
 * src/backend/executor_args.h; every pointer is one of the GPU and aligned to its elements.  They
 * add kernels to the stream and return; they do nothing on a stream that has stopped.
 *
 * Logarithms, in gpu_route() and gpu_cross_entropy(), are the GPU's logf(), within 1 ulp of the
 * exact one, as libm's is; the two may differ.
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

#define GPU_OPERATION(op) void gpu_##op(struct device_stream *stream, const struct op##_args *args);
EXECUTOR_OPERATIONS(GPU_OPERATION)
#undef GPU_OPERATION
void gpu_round_fp8(struct device_stream *stream, const struct round_fp8_args *args);

/* Returns at most 64 MiB, or the bytes for 64 queries, if those are more.  More tokens of the same
 * heads never need less. */
uint64_t gpu_attention_scratch(const struct attention_args *args);

/* The same of choose_keys(): at most 128 MiB, or the bytes for 64 queries. */
uint64_t gpu_choose_keys_scratch(const struct choose_keys_args *args);

/* Returns the bytes for the steps and the decays of all tokens and heads. */
uint64_t gpu_scan_scratch(const struct scan_args *args);

#ifdef __cplusplus
}
#endif

#endif
