/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of bench/ share: the clock, and values to compute on.
 */
#ifndef FP8CONV_BENCH_MEASURE_H
#define FP8CONV_BENCH_MEASURE_H

#include <stdint.h>
#include <time.h>

/* Seconds of a clock, as CLOCK_MONOTONIC. */
static inline double clock_seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#define NOISE_SEED 88172645463325252u

/* The next value of about normal distribution, in [-131070, 131070]: the sum of four uniform ones.
 * *state: NOISE_SEED at first. */
static inline float noise_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return (float)((x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48)) -
	       131070.0f;
}

#endif
