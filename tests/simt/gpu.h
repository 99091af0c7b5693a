/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's words for a CPU: kernels/gpu, compiled by the host's compiler, runs here thread by thread
 * (simt.cc).  No header of CUDA is needed.
 */
#ifndef FP8CONV_TESTS_SIMT_GPU_H
#define FP8CONV_TESTS_SIMT_GPU_H

#include <functional>
#include <math.h>

#include "num/float16.h"
#include "num/fp8.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define GPU_UNROLL
#define GPU_LOOP
#define GPU_CALL inline /* a file need not call all that its headers have */
/* One block runs at a time: its memory is static, in a section that is overwritten before each
 * block. */
#define __shared__ static __attribute__((section("simt_shared")))

struct dim3 {
	unsigned x, y, z;
};

struct __attribute__((may_alias)) uint2 {
	unsigned x, y;
};

struct __attribute__((may_alias, aligned(16))) uint4 {
	unsigned x, y, z, w;
};

struct __attribute__((may_alias, aligned(16))) float4 {
	float x, y, z, w;
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

#define GPU_NAME    "cuda"
#define GPU_SUMMARY "an NVIDIA GPU of compute capability 8.0 or later"

/* The program itself, which has tests/simt/cublaslt.cc. */
#define GPU_CUBLASLT NULL

#define GPU_ALL_LANES 0xFFFFFFFFu

/* Blocks and their threads run in an order that differs from one launch to the next. */
void simt_launch(size_t n_blocks, unsigned n_threads, const std::function<void()> &kernel);

#define GPU_LAUNCH(kernel, n_blocks, n_threads, stream, ...) \
	((void)(stream), simt_launch((n_blocks), (n_threads), [=] { kernel(__VA_ARGS__); }))

void __syncthreads();
int __syncthreads_or(int predicate);

/* Of the 32 threads of a warp, all of which call them. */
unsigned __shfl_xor_sync(unsigned mask, unsigned value, int lane_mask);
unsigned __shfl_sync(unsigned mask, unsigned value, int lane);

static inline void __syncwarp()
{
	__shfl_xor_sync(GPU_ALL_LANES, 0, 0);
}

static inline unsigned __ballot_sync(unsigned mask, bool is)
{
	unsigned all = (unsigned)is << threadIdx.x % 32;

	for (int step = 16; step > 0; step /= 2)
		all |= __shfl_xor_sync(mask, all, step);
	return all;
}

static inline unsigned __popc(unsigned v)
{
	return (unsigned)__builtin_popcount(v);
}

static inline unsigned atomicMax(unsigned *at, unsigned value)
{
	unsigned before = *at;

	*at = value > before ? value : before;
	return before;
}

static inline unsigned atomicAdd(unsigned *at, unsigned value)
{
	unsigned before = *at;

	*at += value;
	return before;
}

static inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long value)
{
	unsigned long long before = *at;

	*at += value;
	return before;
}

/* The twins of what kernels/gpu/cuda/gpu.h has instructions for. */
static inline uint16_t gpu_fp8x2(enum fp8_format format, float a, float b)
{
	return (uint16_t)(fp8_from_f32(format, a) | fp8_from_f32(format, b) << 8);
}

static inline float gpu_f16_to_f32(uint16_t v)
{
	return f16_to_f32(v);
}

static inline void gpu_fp8x2_to_f32(enum fp8_format format, uint16_t codes, float *low, float *high)
{
	*low = fp8_to_f32(format, (uint8_t)codes);
	*high = fp8_to_f32(format, (uint8_t)(codes >> 8));
}

/* A NaN becomes 0x7FFF, as the instruction has it. */
static inline unsigned gpu_bf16x2(float low, float high)
{
	unsigned a = f32_is_nan(low) ? 0x7FFF : bf16_from_f32(low);
	unsigned b = f32_is_nan(high) ? 0x7FFF : bf16_from_f32(high);

	return a | b << 16;
}

static inline unsigned gpu_f16x2(float low, float high)
{
	unsigned a = f32_is_nan(low) ? 0x7FFF : f16_from_f32(low);
	unsigned b = f32_is_nan(high) ? 0x7FFF : f16_from_f32(high);

	return a | b << 16;
}

static inline float gpu_max_magnitude(float a, float b)
{
	unsigned x = f32_magnitude(a), y = f32_magnitude(b), max = x > y ? x : y;

	return f32_from_bits(max > F32_INF ? 0x7FFFFFFF : max);
}

/* Of copies to shared memory, the last that a thread has begun are made as late as may be. */
void gpu_copy_begin(void *to, const void *from);
void gpu_copies_end();
void simt_copies_wait(unsigned n);

template <int n> static inline void gpu_copies_wait()
{
	simt_copies_wait(n);
}

void gpu_mma_f16(float d[4], const unsigned a[4], const unsigned b[2]);

static inline float gpu_exp2(float x)
{
	return exp2f(x);
}

/* Off by a unit of the last place either way, as the instruction may be. */
static inline float gpu_reciprocal(float v)
{
	return f32_from_bits(f32_bits(1 / v) + f32_bits(v) / 256 % 3 - 1);
}

static inline void gpu_store(float4 *to, float4 v)
{
	*to = v;
}

static inline void gpu_store(uint2 *to, uint2 v)
{
	*to = v;
}

static inline uint4 gpu_load_once(const uint4 *from)
{
	return *from;
}

static inline uint2 gpu_load_once(const uint2 *from)
{
	return *from;
}

static inline void gpu_store_once(uint4 *to, uint4 v)
{
	*to = v;
}

static inline void gpu_store_once(uint2 *to, uint2 v)
{
	*to = v;
}

#endif
