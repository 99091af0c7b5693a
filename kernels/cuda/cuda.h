/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of the GPU.
 */
#ifndef FP8CONV_KERNELS_CUDA_H
#define FP8CONV_KERNELS_CUDA_H

#include "backend/backend.h"

extern const struct backend backend_cuda;

#endif
