/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of products that nobody looks at: what is measured is the time they take.
 */
#ifndef FP8CONV_BENCH_MATRIX_H
#define FP8CONV_BENCH_MATRIX_H

#include "base/mem.h"
#include "num/dtype.h"
#include "num/float16.h"

/* n small numbers of both signs, of DT_F32 or DT_BF16, to be freed.  Memory is that of fp32. */
static inline void *matrix_new(enum dtype dtype, size_t n)
{
	float *values = xcalloc(n, sizeof *values);
	uint16_t *halves = (uint16_t *)values;

	for (size_t i = 0; i < n; i++) {
		float value = (float)(i * 2654435761u % 251) / 251 - 0.5f;

		if (dtype == DT_BF16)
			halves[i] = bf16_from_f32(value);
		else
			values[i] = value;
	}
	return values;
}

#endif
