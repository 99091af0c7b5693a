/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan of Mamba-1, compiled once for each instruction set, as ops_loops.h is.
 *
 * A vector holds the same element of the states of 16 channels, which go through all tokens
 * together.  With a state of 16 they have 1 KiB and stay in registers or L1.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_CHANNEL_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_CHANNEL_LOOPS_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/lanes.h"

/* Channels from col on, through all tokens. */
static void scan_channels_from(const struct scan_channels_args *a, size_t col)
{
	lanes state[SCAN_CHANNELS_MAX_STATE], rates[SCAN_CHANNELS_MAX_STATE];
	size_t n_channels = a->n_channels, n = a->state_size;
	lanes skip = lanes_at(a->skip, col, n_channels);

	for (size_t i = 0; i < n; i++) {
		state[i] = lanes_all(0);
		rates[i] = -lanes_exp(lanes_at(a->a_log + i * n_channels, col, n_channels));
	}
	for (size_t t = 0; t < a->n_tokens; t++) {
		const float *b = a->b.data + t * a->b.stride, *c = a->c.data + t * a->c.stride;
		lanes x = lanes_at(a->x.data + t * a->x.stride, col, n_channels);
		lanes d = lanes_softplus(
			lanes_at(a->steps.data + t * a->steps.stride, col, n_channels));
		lanes scaled = d * x, sum = lanes_all(0);

		for (size_t i = 0; i < n; i++) {
			state[i] = lanes_exp(d * rates[i]) * state[i] + scaled * b[i];
			sum += state[i] * c[i];
		}
		lanes_put(a->y.data + t * a->y.stride, col, n_channels, sum + skip * x);
	}
}

static void CPU_OP(scan_channels)(const struct scan_channels_args *args)
{
	for (size_t col = 0; col < args->n_channels; col += LANES)
		scan_channels_from(args, col);
}

#endif
