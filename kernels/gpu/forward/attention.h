/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways of attention on a GPU: exact (attention.cu), and by products of fp16 for long
 * sequences (attention_f16.cu).
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_H
#define FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_H

#include <gpu.h>

#include "kernels/gpu/forward/forward.h"
#include "num/exp.h"

/* The soft cap of values: c tanh(x / c), in the steps of the CPU (kernels/cpu/forward/lanes.h). */
static __device__ inline float softcapped(float x, float softcap)
{
	return softcap * (1.0f - 2.0f / (f32_exp(2.0f * (x / softcap)) + 1.0f));
}

/* Returns the first key that a query attends to. */
static __host__ __device__ inline size_t attention_first_key(const struct attention_args *a,
							     size_t query)
{
	return a->window && query + 1 > a->window ? query + 1 - a->window : 0;
}

/* Returns the set of a query, of a->sets. */
static __device__ inline const uint32_t *attention_set(const struct attention_args *a, size_t head,
						       size_t query)
{
	size_t row = head / (a->n_heads / a->n_sets) * a->n_tokens + query;

	return a->sets + row * KEY_WORDS(attention_n_keys(a));
}

/* Is this attention computed by products of fp16? */
bool attention_is_f16(const struct attention_args *args);

/* Computes it so, with scratch of attention_f16_scratch() bytes, which may be 0 where it cannot be
 * so computed. */
void attend_by_f16(struct device_stream *stream, const struct attention_args *args);
uint64_t attention_f16_scratch(const struct attention_args *args);

#endif
