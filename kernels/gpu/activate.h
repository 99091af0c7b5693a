/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of several numbers at once: the quick way of num/activation_quick.h where all of them
 * allow it, else that of num/activation.h.  The bits are the same.
 */
#ifndef FP8CONV_KERNELS_GPU_ACTIVATE_H
#define FP8CONV_KERNELS_GPU_ACTIVATE_H

#include "backend/executor_args.h"
#include "num/activation_quick.h"
#include <gpu.h>

/* v = the activation of v with a divisor; false: v is as before, because an element needs the long
 * way. */
template <enum activation A, int N> static __device__ inline bool activate_quickly(float v[N])
{
	float divisor[N], most = fabsf(v[0]);
	bool refused = false;

	GPU_UNROLL
	for (int i = 1; i < N; i++)
		most = gpu_max_magnitude(most, v[i]);
	if (!(most <= activation_quick_most(A)))
		return false;
	GPU_UNROLL
	for (int i = 0; i < N; i++) {
		divisor[i] = activation_divisor(A, v[i]);
		refused |= activation_refuses(A, divisor[i]);
	}
	if (refused)
		return false;
	GPU_UNROLL
	for (int i = 0; i < N; i++)
		v[i] = quick_quotient(A == ACT_SIGMOID ? 1.0f : v[i], divisor[i],
				      gpu_reciprocal(divisor[i]));
	return true;
}

template <int N> static __device__ inline void srelu_each(float v[N])
{
	GPU_UNROLL
	for (int i = 0; i < N; i++)
		v[i] = srelu(v[i]);
}

static __device__ GPU_CALL float activate_slowly(enum activation activation, float v)
{
	return activation_apply(activation, v);
}

/* The branches are the same for all threads, but where a number is out of the quick range. */
template <int N> static __device__ inline void activate_each(enum activation activation, float v[N])
{
	bool done = true;

	if (activation == ACT_SILU)
		done = activate_quickly<ACT_SILU, N>(v);
	else if (activation == ACT_GELU)
		done = activate_quickly<ACT_GELU, N>(v);
	else if (activation == ACT_SIGMOID)
		done = activate_quickly<ACT_SIGMOID, N>(v);
	else if (activation == ACT_SRELU)
		srelu_each<N>(v);
	else
		done = activation == ACT_NONE;
	if (done)
		return;
	GPU_UNROLL
	for (int i = 0; i < N; i++)
		v[i] = activate_slowly(activation, v[i]);
}

/* The activation of the gate, times `up`, with the limits of args. */
static __device__ inline float4 gated(const struct gate_args &args, float4 gate, float4 up)
{
	float v[4] = { gate.x, gate.y, gate.z, gate.w }, limit = args.limit;

	GPU_UNROLL
	for (int i = 0; i < 4 && limit > 0 && args.limits_first; i++)
		v[i] = activation_at_most(v[i], limit);
	activate_each<4>(args.activation, v);
	if (limit > 0) {
		GPU_UNROLL
		for (int i = 0; i < 4; i++)
			v[i] = activation_at_most(v[i], limit);
		up = { activation_within(up.x, limit), activation_within(up.y, limit),
		       activation_within(up.z, limit), activation_within(up.w, limit) };
	}
	return { v[0] * up.x, v[1] * up.y, v[2] * up.z, v[3] * up.w };
}

#endif
