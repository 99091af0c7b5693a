/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of a matrix, for code that needs no kernel.
 */
#ifndef FP8CONV_BACKEND_MATRIX_H
#define FP8CONV_BACKEND_MATRIX_H

#include <string.h>

#include "backend/backend.h"
#include "num/float16.h"

/* Returns element i of an array of F32, BF16 or F16 as fp32, exactly. */
static inline float float_at(const void *data, enum dtype dtype, size_t i)
{
	uint16_t half;
	float value;

	if (dtype == DT_F32) {
		memcpy(&value, (const char *)data + 4 * i, 4);
		return value;
	}
	memcpy(&half, (const char *)data + 2 * i, 2);
	return dtype == DT_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

/* Returns x[row, col] as fp32, exactly. */
static inline float matrix_at(const struct matrix *x, size_t row, size_t col)
{
	return float_at(x->data, x->dtype, row * x->stride + col);
}

/* Writes a row of x as fp32, exactly, to values (cols).  Its elements lie at multiples of their
 * size. */
static inline void matrix_row(const struct matrix *x, size_t row, float *values)
{
	const uint16_t *halves = (const uint16_t *)x->data + row * x->stride;

	if (x->dtype == DT_F32)
		memcpy(values, (const float *)x->data + row * x->stride, x->cols * sizeof *values);
	else if (x->dtype == DT_BF16)
		for (size_t i = 0; i < x->cols; i++)
			values[i] = bf16_to_f32(halves[i]);
	else
		for (size_t i = 0; i < x->cols; i++)
			values[i] = f16_to_f32(halves[i]);
}

/* Returns how many of n values differ in a bit; two NaN are the same. */
static inline uint64_t values_changed(const float *a, const float *b, size_t n)
{
	uint64_t n_changed = 0;

	if (!memcmp(a, b, n * sizeof *a))
		return 0;
	for (size_t i = 0; i < n; i++)
		n_changed +=
			f32_bits(a[i]) != f32_bits(b[i]) && !(f32_is_nan(a[i]) && f32_is_nan(b[i]));
	return n_changed;
}

#endif
