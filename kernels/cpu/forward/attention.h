/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention of all heads on the CPU: the loops over heads and blocks of queries around the
 * operations of ops.h.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_ATTENTION_H
#define FP8CONV_KERNELS_CPU_FORWARD_ATTENTION_H

#include "kernels/cpu/forward/ops.h"

/* executor_ops.attention_scratch(). */
uint64_t attention_scratch_size(const struct attention_args *args);

/* executor_ops.attend(), with the operations of one instruction set. */
void attention_heads(const struct cpu_ops *ops, const struct attention_args *args);

#endif
