/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors as wide as a register of the including file's instruction set, for sums that must stay in
 * registers.  Compilers keep vectors of several registers (vec16.h) in memory.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_TILE_VECTOR_H
#define FP8CONV_KERNELS_CPU_FORWARD_TILE_VECTOR_H

#include "kernels/cpu/forward/vec16.h"

#if defined __AVX512F__
#define TILE_LANES 16
#elif defined __FMA__
#define TILE_LANES 8
#else
#define TILE_LANES 4
#endif

/* Compilers keep the sums in registers only if the loops over them are unrolled. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef float tile_vector __attribute__((vector_size(4 * TILE_LANES)));

LANE_FN tile_vector tile_load(const float *x)
{
	tile_vector v;

	memcpy(&v, x, sizeof v);
	return v;
}

LANE_FN void tile_store(float *x, tile_vector v)
{
	memcpy(x, &v, sizeof v);
}

LANE_FN tile_vector tile_all(float x)
{
	return x - (tile_vector){ 0 };
}

/* Returns c + a b, rounded once. */
LANE_FN tile_vector tile_multiply_add(tile_vector a, tile_vector b, tile_vector c)
{
#if defined __AVX512F__
	return (tile_vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__
	return (tile_vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
	for (int i = 0; i < TILE_LANES; i++)
		c[i] = fmaf(a[i], b[i], c[i]);
	return c;
#endif
}

#endif
