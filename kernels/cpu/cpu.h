/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the CPU backends, and their executor.
 */
#ifndef FP8CONV_KERNELS_CPU_H
#define FP8CONV_KERNELS_CPU_H

#include "backend/backend.h"
#include "backend/executor.h"

extern const struct backend backend_reference;
extern const struct backend backend_avx2;
extern const struct backend backend_avx512;

extern const struct executor_ops executor_cpu;

#endif
