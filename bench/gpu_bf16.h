/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms and activations with the output in bf16, close together: what those with FP8 output are
 * measured against.  The matrices are of whole groups of 8 columns.
 */
#ifndef FP8CONV_BENCH_GPU_BF16_H
#define FP8CONV_BENCH_GPU_BF16_H

#include "kernels/gpu/cast/cast.h"

void bench_norm(struct device_stream *stream, const struct norm_args *args, uint16_t *y);
void bench_activate(struct device_stream *stream, const struct activation_args *args, uint16_t *y);

#endif
