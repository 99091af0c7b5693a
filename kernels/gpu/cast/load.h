/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of a matrix in the GPU's memory as fp32, GROUP neighbors of a row at a time.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_LOAD_H
#define FP8CONV_KERNELS_GPU_CAST_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include <gpu.h>

#define GROUP 8

/* By value, so that they stay in registers. */
struct element_group {
	float v[GROUP];
};

/* The element types of a matrix. */
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

/* The GROUP elements of 16 bits that one load of 128 bits brings. */
template <typename T> static __device__ inline void unpack(float v[GROUP], const uint4 &packed)
{
	const unsigned word[] = { packed.x, packed.y, packed.z, packed.w };

	GPU_UNROLL
	for (int i = 0; i < GROUP; i++)
		v[i] = widen(T{ (uint16_t)(word[i / 2] >> 16 * (i % 2)) });
}

static __device__ inline void unpack_either(float v[GROUP], const uint4 &packed, bool is_bf16)
{
	if (is_bf16)
		unpack<bf16>(v, packed);
	else
		unpack<f16>(v, packed);
}

/* GROUP elements at a multiple of 16 bytes. */
template <typename T> static __device__ inline void load_group(float v[GROUP], const T *from)
{
	unpack<T>(v, *reinterpret_cast<const uint4 *>(from));
}

template <> __device__ inline void load_group(float v[GROUP], const float *from)
{
	const float4 low = reinterpret_cast<const float4 *>(from)[0];
	const float4 high = reinterpret_cast<const float4 *>(from)[1];
	const float all[] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };

	for (int i = 0; i < GROUP; i++)
		v[i] = all[i];
}

/* Where the groups of a thread are: `step` elements apart, of which the first n exist.  The others
 * are the first one again, so that a thread reads and writes the same number of groups. */
struct group_spread {
	size_t step;
	int n;

	__device__ size_t at(int k) const
	{
		return k < n ? (size_t)k * step : 0;
	}
};

/* A matrix in the memory of the GPU.  The kernel tests its type at run time; a kernel for each type
 * would be three times as many kernels. */
struct elements {
	const void *data;
	enum dtype dtype;
	size_t stride; /* in elements */
	bool aligned;  /* each row begins at a multiple of 16 bytes */

	/* v = elements (row, col ...), all of which exist, of aligned rows. */
	__device__ void load_whole(float v[GROUP], size_t row, size_t col) const
	{
		size_t i = row * stride + col;

		if (dtype == DT_BF16)
			load_group(v, static_cast<const bf16 *>(data) + i);
		else if (dtype == DT_F16)
			load_group(v, static_cast<const f16 *>(data) + i);
		else
			load_group(v, static_cast<const float *>(data) + i);
	}

	/* Can load_packed() load whole groups? */
	__device__ bool packs(void) const
	{
		return aligned && dtype != DT_F32;
	}

	/* packed[k] = elements i + by.at(k) ..., of 16 bits: all loads before the first use, so
	 * that memory has N requests of a thread at a time. */
	template <int N>
	__device__ void load_packed(uint4 packed[N], size_t i, struct group_spread by) const
	{
		const uint16_t *from = static_cast<const uint16_t *>(data) + i;

		GPU_UNROLL
		for (int k = 0; k < N; k++)
			packed[k] = gpu_load_once(reinterpret_cast<const uint4 *>(from + by.at(k)));
	}

	/* As load_packed(), of elements that other rows need too: caches may keep them. */
	template <int N>
	__device__ void load_shared(uint4 packed[N], size_t i, struct group_spread by) const
	{
		const uint16_t *from = static_cast<const uint16_t *>(data) + i;

		GPU_UNROLL
		for (int k = 0; k < N; k++)
			packed[k] = *reinterpret_cast<const uint4 *>(from + by.at(k));
	}

	/* v = what load_packed() loaded. */
	template <int N>
	__device__ void unpack_groups(float v[N][GROUP], const uint4 packed[N]) const
	{
		if (dtype == DT_BF16) {
			GPU_UNROLL
			for (int k = 0; k < N; k++)
				unpack<bf16>(v[k], packed[k]);
		} else {
			GPU_UNROLL
			for (int k = 0; k < N; k++)
				unpack<f16>(v[k], packed[k]);
		}
	}

	/* v[k] = elements i + by.at(k) ... */
	template <int N>
	__device__ void load_groups(float v[N][GROUP], size_t i, struct group_spread by) const
	{
		uint4 packed[N];

		load_packed<N>(packed, i, by);
		unpack_groups<N>(v, packed);
	}

	/* v[0 .. n-1] = elements (row, col ...); the rest of v is 0. */
	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		if (aligned && n == GROUP) {
			load_whole(v, row, col);
			return;
		}
		for (int c = 0; c < GROUP; c++)
			v[c] = c < n ? at(row, col + c) : 0;
	}

	__device__ float at(size_t row, size_t col) const
	{
		size_t i = row * stride + col;

		if (dtype == DT_BF16)
			return widen(static_cast<const bf16 *>(data)[i]);
		if (dtype == DT_F16)
			return widen(static_cast<const f16 *>(data)[i]);
		return static_cast<const float *>(data)[i];
	}
};

static inline struct elements elements_of(const struct matrix *x)
{
	size_t size = x->dtype == DT_F32 ? 4 : 2;

	return { x->data, x->dtype, x->stride,
		 (uintptr_t)x->data % 16 == 0 && x->stride * size % 16 == 0 };
}

#endif
