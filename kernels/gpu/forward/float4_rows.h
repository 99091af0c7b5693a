/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of fp32 at the speed of memory: a thread takes four adjacent elements, in one access of 16
 * bytes if all rows are aligned to that.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_FLOAT4_ROWS_H
#define FP8CONV_KERNELS_GPU_FORWARD_FLOAT4_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/gpu/device.h"
#include <gpu.h>

#define FOURS_THREADS 256

/* Elements (row, col) and up to 3 after it. */
struct fours {
	size_t row, col;
	int n;
	bool aligned;
};

/* Do all rows of p, `stride` elements apart, begin at multiples of 16 bytes? */
static inline bool fours_aligned(const float *p, size_t stride)
{
	return ((uintptr_t)p | stride * sizeof *p) % 16 == 0;
}

/* The same for rows_in and rows_out. */
template <typename Rows> static inline bool rows_aligned(const Rows &rows)
{
	return fours_aligned(rows.data, rows.stride);
}

/* Returns how many of the 4 elements from i on are below n. */
static __device__ inline int fours_left(size_t i, size_t n)
{
	size_t left = i < n ? n - i : 0;

	return left < 4 ? (int)left : 4;
}

/* Elements that do not exist are 0. */
static __device__ inline float4 fours_load(const float *x, int n, bool aligned)
{
	float4 v = { 0, 0, 0, 0 };

	if (n == 4 && aligned)
		return *reinterpret_cast<const float4 *>(x);
	if (n > 0)
		v.x = x[0];
	if (n > 1)
		v.y = x[1];
	if (n > 2)
		v.z = x[2];
	if (n > 3)
		v.w = x[3];
	return v;
}

static __device__ inline void fours_store(float *y, float4 v, int n, bool aligned)
{
	if (n == 4 && aligned) {
		gpu_store(reinterpret_cast<float4 *>(y), v);
		return;
	}
	if (n > 0)
		y[0] = v.x;
	if (n > 1)
		y[1] = v.y;
	if (n > 2)
		y[2] = v.z;
	if (n > 3)
		y[3] = v.w;
}

/* Applies f to each element, of one or two inputs. */
template <typename F> static __device__ inline float4 fours_each(float4 a, F f)
{
	return { f(a.x), f(a.y), f(a.z), f(a.w) };
}

template <typename F> static __device__ inline float4 fours_each(float4 a, float4 b, F f)
{
	return { f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w) };
}

/* a / b.  A division in 64 bits is slow and seldom needed. */
static __device__ inline size_t quotient(size_t a, size_t b)
{
	return (a | b) >> 32 ? a / b : (unsigned)a / (unsigned)b;
}

template <typename Operation>
static __global__ void each_four(Operation operation, size_t n_rows, size_t n_cols, bool aligned)
{
	size_t n_across = (n_cols + 3) / 4, i = (size_t)blockIdx.x * FOURS_THREADS + threadIdx.x;
	size_t row = quotient(i, n_across), col = (i - row * n_across) * 4;

	if (row < n_rows)
		operation(fours{ row, col, fours_left(col, n_cols), aligned });
}

template <typename Operation>
static void fours_launch(struct device_stream *stream, const char *name, const Operation &operation,
			 size_t n_rows, size_t n_cols, bool aligned)
{
	size_t n = n_rows * ((n_cols + 3) / 4);

	if (n == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(each_four<Operation>, (n + FOURS_THREADS - 1) / FOURS_THREADS, FOURS_THREADS,
		   device_stream_native(stream), operation, n_rows, n_cols, aligned);
	device_launched(stream, name);
}

#endif
