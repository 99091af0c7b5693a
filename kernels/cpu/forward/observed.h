/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of executor.h that also take the statistics of what they read and write, and round
 * what a product takes next: row by row, while a row is in the nearest cache.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_OBSERVED_H
#define FP8CONV_KERNELS_CPU_FORWARD_OBSERVED_H

#include "kernels/cpu/forward/ops.h"

/* Adds x to *stats; does nothing if that is NULL. */
void observed_amax(const struct cpu_ops *ops, const float *x, size_t n, struct value_stats *stats);

/* With the contracts of the functions of executor_ops. */
void observed_round(const struct cpu_ops *ops, const struct round_args *args);
void observed_add(const struct cpu_ops *ops, const struct add_args *args);
void observed_gate(const struct cpu_ops *ops, const struct gate_args *args);
void observed_norm(const struct cpu_ops *ops, const struct rms_norm_args *args);
void observed_rope(const struct cpu_ops *ops, const struct rope_args *args);

#endif
