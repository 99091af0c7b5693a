/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan of Mamba-1.  A thread keeps the state of a channel, in registers if it is small, and
 * goes through all tokens.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/reduce.h"
#include "num/softplus.h"

#define SMALL_STATE 16 /* of all known models */

/* A state has at most MOST elements. */
template <int MOST> static __global__ void channels(struct scan_channels_args a)
{
	size_t col = (size_t)blockIdx.x * THREADS + threadIdx.x;
	float state[MOST] = {}, rates[MOST];

	if (col >= a.n_channels)
		return;
	GPU_UNROLL for (int i = 0; i < MOST; i++) if ((size_t)i < a.state_size) rates[i] =
		-f32_exp(a.a_log[i * a.n_channels + col]);
	for (size_t t = 0; t < a.n_tokens; t++) {
		const float *b = a.b.data + t * a.b.stride, *c = a.c.data + t * a.c.stride;
		float x = a.x.data[t * a.x.stride + col], sum = 0;
		float d = f32_softplus(a.steps.data[t * a.steps.stride + col]), scaled = d * x;

		GPU_UNROLL for (int i = 0; i < MOST; i++) if ((size_t)i < a.state_size)
		{
			state[i] = f32_exp(d * rates[i]) * state[i] + scaled * b[i];
			sum += state[i] * c[i];
		}
		a.y.data[t * a.y.stride + col] = sum + a.skip[col] * x;
	}
}

void gpu_scan_channels(struct device_stream *stream, const struct scan_channels_args *args)
{
	size_t n_blocks = (args->n_channels + THREADS - 1) / THREADS;

	if (args->n_tokens == 0 || n_blocks == 0 || device_stream_stopped(stream))
		return;
	if (args->state_size <= SMALL_STATE)
		GPU_LAUNCH(channels<SMALL_STATE>, n_blocks, THREADS, device_stream_native(stream),
			   *args);
	else
		GPU_LAUNCH(channels<SCAN_CHANNELS_MAX_STATE>, n_blocks, THREADS,
			   device_stream_native(stream), *args);
	device_launched(stream, "scan_channels");
}
