/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operation puts out before the cast, GROUP neighbouring elements of a row at a time: elements of a matrix in memory
 * here; those of a norm or an activation are made of them.
 */
#ifndef FP8CONV_KERNELS_CUDA_SOURCE_H
#define FP8CONV_KERNELS_CUDA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "gpu.h"

#define GROUP 8

/* The types of a matrix's elements. */
struct bf16 {
	uint16_t bits;
};

struct f16 {
	uint16_t bits;
};

static __device__ inline float widen(bf16 v)
{
	return bf16_to_f32(v.bits);
}

static __device__ inline float widen(f16 v)
{
	return gpu_f16_to_f32(v.bits);
}

static __device__ inline float widen(float v)
{
	return v;
}

/* GROUP elements that lie at a multiple of 16 bytes. */
template <typename T> static __device__ inline void load_group(float v[GROUP], const T *from)
{
	const uint4 packed = *reinterpret_cast<const uint4 *>(from);
	const unsigned word[] = { packed.x, packed.y, packed.z, packed.w };

	for (int i = 0; i < GROUP; i++)
		v[i] = widen(T{ (uint16_t)(word[i / 2] >> 16 * (i % 2)) });
}

template <> __device__ inline void load_group(float v[GROUP], const float *from)
{
	const float4 low = reinterpret_cast<const float4 *>(from)[0];
	const float4 high = reinterpret_cast<const float4 *>(from)[1];
	const float all[] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };

	for (int i = 0; i < GROUP; i++)
		v[i] = all[i];
}

/* A matrix of T in the memory of the GPU. */
template <typename T> struct elements {
	const T *data;
	size_t stride;
	bool aligned; /* each row begins at a multiple of 16 bytes */

	/* v[0 .. n-1] = elements (row, col ...); the rest of v is 0. */
	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		const T *from = data + row * stride + col;

		if (aligned && n == GROUP) {
			load_group(v, from);
			return;
		}
		for (int i = 0; i < GROUP; i++)
			v[i] = i < n ? widen(from[i]) : 0;
	}
};

template <typename T> static elements<T> elements_of(const struct matrix *x)
{
	return { static_cast<const T *>(x->data), x->stride,
		 (uintptr_t)x->data % 16 == 0 && x->stride * sizeof(T) % 16 == 0 };
}

#endif
