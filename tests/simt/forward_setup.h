/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for the kernels of a forward pass, twice: one copy for a kernel, one for what it is held against.
 */
#ifndef FP8CONV_TESTS_SIMT_FORWARD_SETUP_H
#define FP8CONV_TESTS_SIMT_FORWARD_SETUP_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cuda/forward.h"
#include "num/bits.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

/* Below, at and above the widths of lanes, of four elements, of tiles and of blocks. */
static const size_t sizes[] = { 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 127, 1000 };

/* In memory of exactly their size, `shift` floats (0 or 1) behind the begin of what malloc() gave. */
struct values {
	float *got, *wanted;
	size_t n, shift;
};

static inline void *some_memory(size_t size)
{
	void *memory = malloc(size ? size : 1);

	assert_non_null(memory);
	return memory;
}

/* In [-4, 4). */
static inline float noise(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (float)(int32_t)state / 536870912.0f;
}

static inline struct values values_new(size_t n, size_t shift)
{
	struct values v = { .n = n, .shift = shift };

	v.got = (float *)some_memory((n + shift) * sizeof(float)) + shift;
	v.wanted = (float *)some_memory(n * sizeof(float));
	for (size_t i = 0; i < n; i++)
		v.wanted[i] = noise();
	memcpy(v.got, v.wanted, n * sizeof(float));
	return v;
}

static inline void assert_same(float got, float wanted)
{
	if (isnan(wanted))
		assert_true(isnan(got));
	else
		assert_int_equal(f32_bits(got), f32_bits(wanted));
}

/* All of them are the same, those too that nobody was to touch. */
static inline void values_free(struct values v)
{
	for (size_t i = 0; i < v.n; i++)
		assert_same(v.got[i], v.wanted[i]);
	free(v.got - v.shift);
	free(v.wanted);
}

static inline void assert_well(void)
{
	struct err err;

	assert_int_equal(device_lane_failed(device_lane(), &err), 0);
}

#endif
