/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on tensors of a CUDA device.
 */
#ifndef FP8CONV_LIB_DEVICE_H
#define FP8CONV_LIB_DEVICE_H

#include "backend/device_ops.h"
#include "lib/context.h"
#include "lib/tensor.h"

/* The work of a call.  ops NULL: on the CPU. */
struct device_work {
	const struct device_ops *ops;
	struct device_queue *queue;
};

/* Begins work where the tensor lies, in the order of its stream.  device_work_end() returns rc, or
 * a failure of the work. */
int device_work_begin(struct fp8conv_context *context, const struct fp8conv_tensor *tensor,
		      const char *name, struct device_work *work, struct err *err);
int device_work_end(const struct device_work *work, int rc, struct err *err);

/* amax_stack() of x, which is the tensor: to memory of its device, or of the host. */
void device_work_amax(const struct device_work *work, const struct stack *x, float *amax,
		      bool on_host);

/* Are the matrices of a stack the rows of one, without gaps? */
bool stack_is_one(const struct stack *stack);

void device_work_release(struct fp8conv_context *context);

#endif
