/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPUs are used: the functions of kernels/gpu/device.h that say it set this.
 */
#ifndef FP8CONV_KERNELS_GPU_CUDA_DEVICES_H
#define FP8CONV_KERNELS_GPU_CUDA_DEVICES_H

#include "kernels/gpu/device.h"

struct devices {
	int n;
	int number[DEVICES_MOST], capability[DEVICES_MOST];
	char why[256]; /* n 0: why there are none */
};

/* Valid after device_missing(). */
extern struct devices devices;

#endif
