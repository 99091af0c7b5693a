/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways of attention on a GPU: exact (attention.cu), and by products of fp16 for long
 * sequences (attention_f16.cu).
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_H
#define FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_H

#include "kernels/gpu/forward/forward.h"
#include <gpu.h>

/* Tokens up to which the sums of attention have the bits of the CPU's, whatever args.f16 says. */
#define ATTENTION_MOST_EXACT 1024

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
