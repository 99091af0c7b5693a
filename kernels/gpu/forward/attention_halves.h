/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values as fp16 for the attention of attention_f16.cu.  Those of each head are scaled by
 * a power of two, so that none of them overflows.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_HALVES_H
#define FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_HALVES_H

#include "kernels/gpu/forward/attention.h"
#include "kernels/gpu/reduce.h"

/* Keys and values of all heads as fp16, in the scratch. */
struct halves {
	size_t n_tokens;    /* whole tiles; those that do not exist are 0 */
	size_t dim, values; /* as a kernel takes them; columns that do not exist are 0 */
	size_t n_pieces;
	uint16_t *k;	/* (n_kv_heads, n_tokens, dim) */
	uint16_t *v;	/* (n_kv_heads, values, n_tokens) */
	unsigned *amax; /* (2, n_kv_heads, n_pieces): of k, of v, as bits */
};

/* A power of two: the largest magnitude times it is in [2^14, 2^15). */
struct shift {
	float to, back;
};

static __device__ inline struct shift shift_of(unsigned amax)
{
	unsigned exponent = amax >> 23;

	exponent = exponent < 30 ? 30 : exponent > 254 ? 254 : exponent;
	return { f32_from_bits((268 - exponent) << 23), f32_from_bits((exponent - 14) << 23) };
}

/* Returns that of the keys of a head, or of its values.  All threads of a warp call it. */
static __device__ inline struct shift shift_of_head(const struct halves *h, size_t head,
						    size_t n_heads, bool values)
{
	const unsigned *amax = h->amax + ((values ? n_heads : 0) + head) * h->n_pieces;
	unsigned max = 0;

	for (size_t i = threadIdx.x % 32; i < h->n_pieces; i += 32)
		max = max_of(max, amax[i]);
	return shift_of(lanes_max(max, 32));
}

/* Returns where they are in the scratch of `args`, whose head_dim is one that
 * attention_f16_cols() takes. */
struct halves halves_of(const struct attention_args *args);

/* Returns the columns that a kernel takes for n; 0: none takes so many. */
size_t attention_f16_cols(size_t n);

/* Writes keys and values. */
void halves_make(struct device_stream *stream, const struct attention_args *args,
		 const struct halves *halves);

#endif
