/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_OPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_OPS_H

#include "backend/compute.h"

extern const struct compute compute_any;
extern const struct compute compute_avx2;
extern const struct compute compute_avx512;

#endif
