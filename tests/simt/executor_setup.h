/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's executor for its tests, by its row alone (src/backend/executor.h): one with a stream,
 * and a weight's product with its sums in double.
 */
#ifndef FP8CONV_TESTS_SIMT_EXECUTOR_SETUP_H
#define FP8CONV_TESTS_SIMT_EXECUTOR_SETUP_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/gpu/backend.h"
#include "num/float16.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"

#define N_ROWS(table) (sizeof(table) / sizeof *(table))

static const struct executor_ops *const ops = &executor_gpu;

static uint32_t random_state = 1;

/* Between -4 and 4; a value of dtype, BF16 or F32. */
static inline float value(enum dtype dtype)
{
	float v;

	random_state = random_state * 1664525 + 1013904223;
	v = (float)(random_state >> 8) / (1 << 21) - 4;
	return dtype == DT_BF16 ? bf16_to_f32(bf16_from_f32(v)) : v;
}

static inline float *values_new(size_t n, enum dtype dtype)
{
	float *values = malloc(n * sizeof *values);

	assert_non_null(values);
	for (size_t i = 0; i < n; i++)
		values[i] = value(dtype);
	return values;
}

static inline size_t size_of(enum dtype dtype)
{
	return dtype_bits(dtype) / 8;
}

/* n values as they are in dtype. */
static inline void *as(enum dtype dtype, const float *values, size_t n)
{
	void *memory = malloc(n * size_of(dtype));

	assert_non_null(memory);
	for (size_t i = 0; i < n; i++) {
		if (dtype == DT_BF16)
			((uint16_t *)memory)[i] = bf16_from_f32(values[i]);
		else
			((float *)memory)[i] = values[i];
	}
	return memory;
}

/* An executor, one stream of it, and what they are asked for. */
struct bench {
	struct executor *executor;
	struct executor_stream *stream;
	struct err err;
};

static inline void check(const struct bench *b, int rc)
{
	if (rc)
		fail_msg("%s", b->err.message);
}

/* Whatever fails, it can be released: so it is with all that has _try(). */
static inline int bench_try(struct bench *b)
{
	memset(b, 0, sizeof *b);
	return ops->open(&b->executor, 0, &b->err) ||
			       ops->stream_new(&b->stream, b->executor, &b->err)
		       ? -1
		       : 0;
}

static inline void bench_init(struct bench *b)
{
	check(b, bench_try(b));
}

static inline void bench_release(struct bench *b)
{
	ops->stream_free(b->stream);
	ops->close(b->executor);
	assert_int_equal(simt_held, 0);
	assert_int_equal(simt_lt_objects, simt_lt_kept);
}

static inline void *memory_new(struct bench *b, size_t size)
{
	void *memory;

	check(b, ops->memory_new(b->executor, &memory, size, "values", &b->err));
	return memory;
}

/* --- products --- */

/* x (m, k) and w (n, k), on both sides. */
struct product {
	struct executor_weight weight;
	size_t m;
	float *x, *w;
	float *y; /* (m, n) */
	void *x_there, *y_there;
};

/* The last part first: their order is free. */
static inline int weight_fill(const struct product *p, struct err *err)
{
	const struct executor_weight *weight = &p->weight;
	int rc = 0;

	for (size_t part = executor_weight_panels(weight); part-- > 0 && !rc;) {
		void *rows = as(weight->dtype, p->w + part * weight->panel_rows * weight->k,
				executor_weight_panel_rows(weight, part) * weight->k);

		rc = ops->weight_set(weight, part, rows, err);
		free(rows);
	}
	return rc;
}

struct product_shape {
	enum dtype dtype;
	size_t m, n, k;
	size_t panel_rows; /* 0 or, as all lie in one piece, less than there would be */
};

static inline int product_try(struct bench *b, struct product *p, struct product_shape shape)
{
	enum dtype dtype = shape.dtype;
	size_t m = shape.m, n = shape.n, k = shape.k, x_size = m * k * size_of(dtype);
	void *x;
	int rc;

	*p = (struct product){
		.weight = { .executor = b->executor, .dtype = dtype, .n = n, .k = k }, .m = m
	};
	p->weight.panel_rows =
		shape.panel_rows ? shape.panel_rows : ops->portion(PORTION_WEIGHT, n);
	p->x = values_new(m * k, dtype);
	p->w = values_new(n * k, dtype);
	p->y = values_new(m * n, DT_F32);
	if (ops->weight_init(&p->weight, &b->err))
		return -1;
	if (weight_fill(p, &b->err) ||
	    ops->memory_new(b->executor, &p->x_there, x_size, "x", &b->err) ||
	    ops->memory_new(b->executor, &p->y_there, m * n * sizeof(float), "y", &b->err))
		return -1;
	x = as(dtype, p->x, m * k);
	ops->put(b->stream, p->x_there, x, x_size);
	rc = ops->wait(b->stream, &b->err);
	free(x);
	return rc;
}

static inline void product_init(struct bench *b, struct product *p, struct product_shape shape)
{
	check(b, product_try(b, p, shape));
}

static inline void product_release(struct bench *b, struct product *p)
{
	ops->weight_release(&p->weight);
	ops->weight_release(&p->weight); /* as often as one likes */
	ops->memory_free(b->executor, p->x_there);
	ops->memory_free(b->executor, p->y_there);
	free(p->x);
	free(p->w);
	free(p->y);
}

/* y: (m, n), of rows first, first + 1, ... of the weight.  Sums in fp32 are off by k roundings of
 * at most the sum of magnitudes. */
static inline void product_check(const struct product *p, const float *y, size_t first, size_t n)
{
	size_t k = p->weight.k;

	for (size_t i = 0; i < p->m; i++) {
		for (size_t j = 0; j < n; j++) {
			double sum = 0, magnitude = 0;

			for (size_t l = 0; l < k; l++) {
				double v = (double)p->x[i * k + l] * p->w[(first + j) * k + l];

				sum += v;
				magnitude += fabs(v);
			}
			if (!(fabs(y[i * n + j] - sum) <= ldexp((double)k * magnitude, -24)))
				fail_msg("(%zu, %zu): %g, not %g", i, first + j, y[i * n + j], sum);
		}
	}
}

static inline void whole_check(struct bench *b, struct product *p)
{
	size_t n = p->weight.n;

	ops->multiply(b->stream, &(const struct multiply_args){ &p->weight, p->x_there, p->m,
								p->y_there, NULL, false });
	ops->fetch(b->stream, p->y, p->y_there, p->m * n * sizeof *p->y);
	check(b, ops->wait(b->stream, &b->err));
	product_check(p, p->y, 0, n);
}

#endif
