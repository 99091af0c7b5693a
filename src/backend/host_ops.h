/* SPDX-License-Identifier: Apache-2.0
 *
 * The few operations on arrays that run on the CPU beside any executor: rounding weights while they
 * load, and routing tokens to experts.  They run on the calling thread; every row gives the same
 * bits.
 */
#ifndef FP8CONV_BACKEND_HOST_OPS_H
#define FP8CONV_BACKEND_HOST_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host_ops {
	const char *name; /* of the instruction set */
	bool (*usable)(void);

	/* y = bf16(x), to nearest even, as bf16 or as the fp32 of the same value.  In the second, y
	 * may be x. */
	void (*round_bf16)(const float *x, size_t n, uint16_t *y);
	void (*round_bf16_f32)(const float *x, size_t n, float *y);

	/* Turns a row of n scores into probabilities, in place. */
	void (*softmax)(float *x, size_t n);
};

/* Every row of this build, the best first; the last one runs everywhere (kernels/backends.c). */
extern const struct host_ops *const host_ops[];

/* Returns the best row that this machine can run. */
const struct host_ops *host_ops_select(void);

#endif
