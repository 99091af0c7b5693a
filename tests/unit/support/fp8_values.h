/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a matrix in E4M3, told in plain floating point: rounding by rintf(), scales by
 * logarithms.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_FP8_VALUES_H
#define FP8CONV_TESTS_UNIT_SUPPORT_FP8_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "num/qspec.h"

/* 448 / amax; the power of two below it; an exponent that holds amax (MX). */
enum scales { FLOATS, POWERS, EXPONENTS };

/* A recipe of `--fp8-forward` with its tiles. */
struct fp8_recipe {
	const char *recipe, *scale_fmt;
	enum scales scales;
	struct tile w, x;
};

#define N_FP8_RECIPES 6
extern const struct fp8_recipe fp8_recipes[N_FP8_RECIPES];

/* v rounded to E4M3: four significant bits, the last one at 2^-9 or above; at most 448. */
float e4m3(float v);

/* Writes n values of many sizes.  None is so near the middle of two codes that another order of
 * operations would matter. */
void fp8_values_fill(float *x, size_t n, uint32_t seed);

/* Writes the values of x (n_rows, n_cols) in FP8 to the same places of values; rows are stride
 * apart.  least: an amax that the tiles share with other matrices. */
struct fp8_values {
	size_t n_rows, n_cols, stride;
	struct tile tile;
	enum scales scales;
	float least;
};
void fp8_values(const struct fp8_values *of, const float *x, float *values);

#endif
