/* SPDX-License-Identifier: Apache-2.0
 *
 * executor_ops.route() and sort_choices() on the CPU, one thread at a time.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_ROUTE_H
#define FP8CONV_KERNELS_CPU_FORWARD_ROUTE_H

#include "kernels/cpu/forward/ops.h"

void route_tokens(const struct cpu_ops *ops, const struct route_args *args);
void route_sort(const struct sort_choices_args *args);

#endif
