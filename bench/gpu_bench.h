/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks of the GPU share: casts, calls that must not fail, memory, and values to fill
 * it with.
 */
#ifndef FP8CONV_BENCH_GPU_BENCH_H
#define FP8CONV_BENCH_GPU_BENCH_H

extern "C" {
#include "backend/dispatch.h"
}
#include "bench/measure.h"
#include "num/float16.h"

#include <cuda_runtime.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_GPU	   77 /* exit status */
#define N_WARM_UP  3
#define N_RUNS_MAX 101

/* Of struct qspec. */
#define TENSOR                       \
	{                            \
		FP8_E4M3,            \
		{                    \
			WHOLE, WHOLE \
		}                    \
	}
#define CHANNEL                  \
	{                        \
		FP8_E4M3,        \
		{                \
			1, WHOLE \
		}                \
	}
#define BLOCK                                           \
	{                                               \
		FP8_E4M3, { 128, 128 }, SCALE_F32, true \
	}
#define BLOCK_ROW                                     \
	{                                             \
		FP8_E4M3, { 1, 128 }, SCALE_F32, true \
	}
#define MX                                      \
	{                                       \
		FP8_E4M3, { 1, 32 }, SCALE_E8M0 \
	}

/* Ends the program. */
static inline void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(4);
}

static inline void check(cudaError_t error, const char *call)
{
	if (error)
		die(call, cudaGetErrorString(error));
}

/* Where there is no GPU that can be used, the program ends with that exit status. */
static inline const struct backend *cuda_or_exit(void)
{
	const struct backend *backend;
	struct err err;

	backend = backend_select("cuda", &err);
	if (!backend) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, err.message);
		exit(NO_GPU);
	}
	return backend;
}

/* size bytes of zeros. */
static inline void *device_new(size_t size)
{
	void *memory;

	check(cudaMalloc(&memory, size), "cudaMalloc");
	check(cudaMemset(memory, 0, size), "cudaMemset");
	return memory;
}

/* n values of about normal distribution, as those of kernels.c: what is multiplied is not all
 * zeros. */
static inline void fill(uint16_t *x, size_t n)
{
	uint64_t state = NOISE_SEED;

	for (size_t i = 0; i < n; i++)
		x[i] = bf16_from_f32(noise_next(&state) * 5e-7f);
}

/* "[1.5, 1.25]" */
static inline void print_seconds(const double *seconds, int n_runs)
{
	for (int run = 0; run < n_runs; run++)
		printf("%s%.9f", run ? ", " : "[", seconds[run]);
	printf("]");
}

#endif
