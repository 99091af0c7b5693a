/* SPDX-License-Identifier: Apache-2.0
 *
 * executor_ops.round_fp8() by a backend of the CPU.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_ROUND_FP8_H
#define FP8CONV_KERNELS_CPU_FORWARD_ROUND_FP8_H

#include "backend/backend.h"
#include "base/mem.h"

/* The memory of one stream, kept from call to call.  A zeroed struct is empty. */
struct round_fp8_space {
	struct buffer codes, scales, amaxes;
};

/* ERR_SYSTEM without memory for the codes of a band. */
int round_fp8_run(const struct backend *backend, struct round_fp8_space *space,
		  const struct round_fp8_args *args, struct err *err);
void round_fp8_release(struct round_fp8_space *space);

#endif
