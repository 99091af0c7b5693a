/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of queries and keys: a block computes 64 x 64 sums, 8 x 4 in each thread.
 *
 * It takes 32 features at a time into shared memory, and reads four at a time from there.  Rows
 * there are 36 floats apart, so that 8 threads that read 16 bytes each use all banks.  Each sum is
 * a chain of fused multiply-adds in the order of features.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_SCORE_TILES_H
#define FP8CONV_KERNELS_GPU_FORWARD_SCORE_TILES_H

#include "kernels/gpu/forward/float4_rows.h"

#define TILE	     64
#define STEP	     32
#define STEP_FOURS   (STEP / 4)
#define PITCH	     (STEP_FOURS + 1)
#define TILE_THREADS 128				/* 8 x 16 */
#define TILE_LOADS   (TILE * STEP_FOURS / TILE_THREADS) /* fours of a thread */
#define SIDE	     16
#define TOGETHER     4 /* queries that share their tokens */
#define ROWS	     8 /* queries of a thread: twice four, half a tile apart */

/* Returns the thread's i-th query in a tile. */
static __device__ inline unsigned query_at(int i)
{
	return threadIdx.x / SIDE * TOGETHER + i / TOGETHER * (TILE / 2) + i % TOGETHER;
}

/* Loads n_rows rows of a tile, and up to STEP columns; the rest is 0.  A thread reads all that it
 * takes before it stores any. */
static __device__ inline void tile_load(float4 (*to)[PITCH], const float *from, size_t stride,
					size_t n_rows, size_t n_cols, bool aligned)
{
	unsigned first = threadIdx.x / STEP_FOURS, col = threadIdx.x % STEP_FOURS;
	int n_own = fours_left(col * 4, n_cols);
	float4 v[TILE_LOADS];

	from += first * stride + col * 4;
	GPU_UNROLL
	for (unsigned k = 0; k < TILE_LOADS; k++) {
		int n = first + k * (TILE / TILE_LOADS) < n_rows ? n_own : 0;

		v[k] = fours_load(from, n, aligned);
		from += stride * (TILE / TILE_LOADS);
	}
	GPU_UNROLL
	for (unsigned k = 0; k < TILE_LOADS; k++)
		to[first + k * (TILE / TILE_LOADS)][col] = v[k];
}

static __device__ inline float chain(float sum, float4 a, float4 b)
{
	sum = fmaf(a.x, b.x, sum);
	sum = fmaf(a.y, b.y, sum);
	sum = fmaf(a.z, b.z, sum);
	return fmaf(a.w, b.w, sum);
}

/* A thread has every 16th key, so that adjacent threads read adjacent rows. */
static __device__ inline void scores_add(float sum[ROWS][4], const float4 (*q)[PITCH],
					 const float4 (*k)[PITCH])
{
	unsigned key = threadIdx.x % SIDE;

	GPU_LOOP /* an unrolled loop would take the registers of other blocks */
		for (int f = 0; f < STEP_FOURS; f++)
	{
		float4 right[4];

		GPU_UNROLL
		for (int j = 0; j < 4; j++)
			right[j] = k[key + j * SIDE][f];
		GPU_UNROLL
		for (int i = 0; i < ROWS; i++) {
			float4 left = q[query_at(i)][f];

			GPU_UNROLL
			for (int j = 0; j < 4; j++)
				sum[i][j] = chain(sum[i][j], left, right[j]);
		}
	}
}

#endif
