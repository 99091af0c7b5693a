/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of a matrix, for code that needs no kernel.
 */
#ifndef FP8CONV_BACKEND_MATRIX_H
#define FP8CONV_BACKEND_MATRIX_H

#include <string.h>

#include "backend/backend.h"
#include "num/float16.h"

/* Returns x[row, col] as fp32, exactly. */
static inline float matrix_at(const struct matrix *x, size_t row, size_t col)
{
	size_t i = row * x->stride + col;
	uint16_t half;
	float value;

	if (x->dtype == DT_F32) {
		memcpy(&value, (const char *)x->data + 4 * i, 4);
		return value;
	}
	memcpy(&half, (const char *)x->data + 2 * i, 2);
	return x->dtype == DT_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

#endif
