/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan of Mamba-2 in two kernels: the steps and decays of all tokens, then the states.  16
 * threads, the lanes of its sums, keep a row of a state in registers, and go through all tokens.  b
 * and c are read once for each row of a state, from the caches.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/float4_rows.h"
#include "kernels/gpu/reduce.h"
#include "num/softplus.h"

#define ROWS (THREADS / SUM_LANES) /* of a state, in a block */

struct scan_steps {
	struct scan_args a;
	float *steps, *decays; /* (n_tokens, n_heads) */

	__device__ void operator()(const struct fours &at) const
	{
		for (int i = 0; i < at.n; i++) {
			size_t head = at.col + i, to = at.row * a.n_heads + head;
			float d = f32_softplus(a.steps.data[at.row * a.steps.stride + head] +
					       a.step_bias[head]);

			d = d < a.step_min ? a.step_min : d;
			d = d > a.step_max ? a.step_max : d;
			steps[to] = d;
			decays[to] = f32_exp(d * -f32_exp(a.a_log[head]));
		}
	}
};

/* A thread has the OWN elements of a row that are its lane's. */
template <int OWN>
static __global__ void scan_rows(struct scan_args a, const float *steps, const float *decays)
{
	size_t n_panels = (a.head_dim + ROWS - 1) / ROWS, head = blockIdx.x / n_panels;
	size_t row = blockIdx.x % n_panels * ROWS + threadIdx.x / SUM_LANES;
	unsigned lane = threadIdx.x % SUM_LANES;
	size_t group = head / (a.n_heads / a.n_groups) * a.state_size;
	size_t col = head * a.head_dim + row;
	bool there = row < a.head_dim;
	float state[OWN] = {};

	for (size_t t = 0; t < a.n_tokens; t++) {
		const float *b = a.b.data + t * a.b.stride + group;
		const float *c = a.c.data + t * a.c.stride + group;
		float x = there ? a.x.data[t * a.x.stride + col] : 0, sum = 0;
		float scaled = steps[t * a.n_heads + head] * x;
		float decay = decays[t * a.n_heads + head];

		GPU_UNROLL for (int i = 0; i < OWN; i++)
		{
			size_t n = lane + (size_t)i * SUM_LANES;

			if (n < a.state_size) {
				state[i] = fmaf(decay, state[i], scaled * b[n]);
				sum = fmaf(state[i], c[n], sum);
			}
		}
		sum = lanes_sum(sum);
		if (lane == 0 && there)
			a.y.data[t * a.y.stride + col] = sum + a.skip[head] * x;
	}
}

template <int OWN>
static void rows_launch(struct device_stream *stream, const struct scan_args *args,
			const float *steps, const float *decays)
{
	size_t n_blocks = args->n_heads * ((args->head_dim + ROWS - 1) / ROWS);

	if (OWN * SUM_LANES < args->state_size && OWN * SUM_LANES < SCAN_MAX_STATE) {
		rows_launch <
			OWN *SUM_LANES<SCAN_MAX_STATE ? 2 * OWN : OWN>(stream, args, steps, decays);
		return;
	}
	GPU_LAUNCH(scan_rows<OWN>, n_blocks, THREADS, device_stream_native(stream), *args, steps,
		   decays);
	device_launched(stream, "scan");
}

uint64_t gpu_scan_scratch(const struct scan_args *args)
{
	return 2 * (uint64_t)args->n_tokens * args->n_heads * sizeof(float);
}

void gpu_scan(struct device_stream *stream, const struct scan_args *args)
{
	size_t n = args->n_tokens * args->n_heads;
	float *steps = static_cast<float *>(args->scratch), *decays = steps + n;

	if (n == 0 || args->head_dim == 0 || device_stream_stopped(stream))
		return;
	fours_launch(stream, "scan", scan_steps{ *args, steps, decays }, args->n_tokens,
		     args->n_heads, false);
	rows_launch<1>(stream, args, steps, decays);
}

/* The scan of Mamba-1: a thread keeps the state of a channel, in registers if it is small, and goes
 * through all tokens. */
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
