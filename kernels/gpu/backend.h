/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the GPU.
 */
#ifndef FP8CONV_KERNELS_GPU_BACKEND_H
#define FP8CONV_KERNELS_GPU_BACKEND_H

#include "backend/backend.h"
#include "backend/executor.h"

extern const struct backend backend_gpu;
extern const struct device_ops gpu_in_place;
extern const struct executor_ops executor_gpu;

#endif
