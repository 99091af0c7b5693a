/* SPDX-License-Identifier: Apache-2.0
 *
 * The additions to C++ for kernels, as nvcc has them: the CUDA words, a launch, and the device
 * instructions for functions of num/. tests/simt/gpu.h has the same for a CPU.
 */
#ifndef FP8CONV_KERNELS_GPU_CUDA_GPU_H
#define FP8CONV_KERNELS_GPU_CUDA_GPU_H

#include <cuda_runtime.h>

#include "num/float16.h"
#include "num/fp8.h"

#define GPU_LAUNCH(kernel, n_blocks, n_threads, stream, ...) \
	kernel<<<(unsigned)(n_blocks), (n_threads), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__)

/* Words of the GPU's rows (kernels/gpu/backend.h). */
#define GPU_NAME    "cuda"
#define GPU_SUMMARY "an NVIDIA GPU of compute capability 8.0 or later"

/* The files to try for cuBLASLt. */
#define GPU_CUBLASLT "libcublasLt.so.13", "libcublasLt.so.12"

#define GPU_ALL_LANES 0xFFFFFFFFu
#define GPU_UNROLL    _Pragma("unroll")
#define GPU_LOOP      _Pragma("unroll 1")
#define GPU_CALL \
	__noinline__ /* for rare or long code: inlined copies would fill the instruction cache */

#if __CUDA_ARCH__ < 890
static __device__ GPU_CALL uint16_t fp8x2_portable(enum fp8_format format, float a, float b)
{
	return (uint16_t)(fp8_from_f32(format, a) | fp8_from_f32(format, b) << 8);
}

static __device__ GPU_CALL float2 fp8x2_to_f32_portable(enum fp8_format format, uint16_t codes)
{
	return { fp8_to_f32(format, (uint8_t)codes), fp8_to_f32(format, (uint8_t)(codes >> 8)) };
}
#endif

/* cvt.rn.satfinite: NaN gives 0x7F, as in num/fp8.h.  low: the code of a. */
static __device__ inline uint16_t gpu_fp8x2(enum fp8_format format, float a, float b)
{
#if __CUDA_ARCH__ >= 890
	uint16_t codes;

	if (format == FP8_E4M3)
		asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(b), "f"(a));
	else
		asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(b), "f"(a));
	return codes;
#else
	return fp8x2_portable(format, a, b);
#endif
}

/* cvt.f32.f16 keeps the payload of a NaN, which no caller uses. */
static __device__ inline float gpu_f16_to_f32(uint16_t v)
{
	float wide;

	asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v));
	return wide;
}

/* The exact values of two codes; *low: that of the low byte. */
static __device__ inline void gpu_fp8x2_to_f32(enum fp8_format format, uint16_t codes, float *low,
					       float *high)
{
#if __CUDA_ARCH__ >= 890
	unsigned halves; /* two f16: every code is one */

	if (format == FP8_E4M3)
		asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
	else
		asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
	*low = gpu_f16_to_f32((uint16_t)halves);
	*high = gpu_f16_to_f32((uint16_t)(halves >> 16));
#else
	float2 values = fp8x2_to_f32_portable(format, codes);

	*low = values.x;
	*high = values.y;
#endif
}

/* Round to nearest even, as num/float16.h does, but for a NaN: it becomes 0x7FFF.  low: in the low
 * half. */
static __device__ inline unsigned gpu_bf16x2(float low, float high)
{
	unsigned halves;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
	return halves;
}

static __device__ inline unsigned gpu_f16x2(float low, float high)
{
	unsigned halves;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
	return halves;
}

/* Returns the larger magnitude, or NaN if an argument is one. */
static __device__ inline float gpu_max_magnitude(float a, float b)
{
	float max;

	asm("max.NaN.f32 %0, %1, %2;" : "=f"(max) : "f"(fabsf(a)), "f"(fabsf(b)));
	return max;
}

/* d (16, 8) += a (16, 16) b (16, 8), of fp16, by the 32 threads of a warp, each of which has some
 * of their elements (PTX, mma.m16n8k16). */
static __device__ inline void gpu_mma_f16(float d[4], const unsigned a[4], const unsigned b[2])
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
	    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Begins to copy 16 bytes to shared memory; gpu_copies_end(): those that have begun are a group.
 * gpu_copies_wait<n>(): waits for all groups of this thread but the last n. */
static __device__ inline void gpu_copy_begin(void *to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
			     (unsigned)__cvta_generic_to_shared(to)),
		     "l"(from)
		     : "memory");
}

static __device__ inline void gpu_copies_end()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int n> static __device__ inline void gpu_copies_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

/* 2^x, to 2^-22 of it; results below 2^-126 are 0. */
static __device__ inline float gpu_exp2(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* Returns 1 / v within one unit of its last place, for v and 1 / v in the normal range. */
static __device__ inline float gpu_reciprocal(float v)
{
	float near;

	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(v));
	return near;
}

/* One store of 64 or 128 bits: an assignment may become one for each member. */
static __device__ inline void gpu_store(float4 *to, float4 v)
{
	asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
		     "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
		     : "memory");
}

static __device__ inline void gpu_store(uint2 *to, uint2 v)
{
	asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
		     "r"(v.x), "r"(v.y)
		     : "memory");
}

/* Load what is not read again soon, and store what the GPU does not read soon: it leaves the caches
 * first. */
static __device__ inline uint4 gpu_load_once(const uint4 *from)
{
	return __ldcs(from);
}

static __device__ inline uint2 gpu_load_once(const uint2 *from)
{
	return __ldcs(from);
}

static __device__ inline void gpu_store_once(uint4 *to, uint4 v)
{
	__stcs(to, v);
}

static __device__ inline void gpu_store_once(uint2 *to, uint2 v)
{
	__stcs(to, v);
}

#endif
