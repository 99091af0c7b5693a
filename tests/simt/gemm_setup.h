/* SPDX-License-Identifier: Apache-2.0
 *
 * Products for the tests of kernels/gpu/gemm.h: operands on both sides, and sums in double that
 * are taken here, from the tile grids of num/scale_grid.h.
 */
#ifndef FP8CONV_TESTS_SIMT_GEMM_SETUP_H
#define FP8CONV_TESTS_SIMT_GEMM_SETUP_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/gpu/cuda/cublaslt.h"
#include "kernels/gpu/gemm.h"
#include "num/float16.h"
#include "num/fp8.h"
#include "num/scale_grid.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"

#define PADDING	      16 /* elements between rows, of NaN */
#define N_ROWS(table) (sizeof(table) / sizeof *(table))

/* A kind of product. */
struct kind {
	enum dtype a, b, d;
	struct tile a_tile, b_tile;
	int capability;
	bool fast;
};

/* An operand in the memory of the host: (rows, k), and its scales. */
struct side {
	size_t rows, k, stride;
	enum dtype dtype;
	struct tile tile;
	void *data, *scales;
	struct scale_grid grid;
};

static uint64_t random_state = 1;

static inline uint32_t random_bits(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33);
}

static inline bool is_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2;
}

static inline size_t size_of(enum dtype dtype)
{
	return dtype_bits(dtype) / 8;
}

static inline enum fp8_format format_of(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 ? FP8_E4M3 : FP8_E5M2;
}

static inline float load(enum dtype dtype, const void *data, size_t i)
{
	if (dtype == DT_BF16)
		return bf16_to_f32(((const uint16_t *)data)[i]);
	return is_fp8(dtype) ? fp8_to_f32(format_of(dtype), ((const uint8_t *)data)[i])
			     : ((const float *)data)[i];
}

static inline void store(enum dtype dtype, void *data, size_t i, float v)
{
	if (dtype == DT_BF16)
		((uint16_t *)data)[i] = bf16_from_f32(v);
	else if (is_fp8(dtype))
		((uint8_t *)data)[i] = fp8_from_f32(format_of(dtype), v);
	else
		((float *)data)[i] = v;
}

/* Between -4 and 4, whole numbers where sums are to be exact. */
static inline float value(bool exact)
{
	float v = (float)(random_bits() % 8001) / 1000 - 4;

	return exact ? rintf(v) : v;
}

static inline void *host_new(size_t size)
{
	void *memory = malloc(size ? size : 1);

	assert_non_null(memory);
	memset(memory, 0xFF, size); /* NaN in every type here */
	return memory;
}

static inline void scales_init(struct side *s, bool exact)
{
	const struct qspec spec = { .tile = s->tile,
				    .scale_type = s->tile.cols == 32 ? SCALE_E8M0 : SCALE_F32 };

	s->grid = scale_grid_of(&spec, s->rows, s->k, false, SCALES_GEMM);
	s->scales = host_new(s->grid.rows * s->grid.cols * scale_size(spec.scale_type));
	for (size_t i = 0; i < tile_count(s->rows, s->tile.rows); i++) {
		for (size_t j = 0; j < tile_count(s->k, s->tile.cols); j++) {
			size_t at = scale_index(&s->grid, i, j);

			if (spec.scale_type == SCALE_E8M0)
				((uint8_t *)s->scales)[at] = (uint8_t)(120 + random_bits() % 12);
			else
				((float *)s->scales)[at] =
					exact ? 0.25f : 0.01f + (float)(random_bits() % 1000) / 500;
		}
	}
}

static inline struct side side_new(size_t rows, size_t k, enum dtype dtype, struct tile tile,
				   bool exact)
{
	struct side s = {
		.rows = rows, .k = k, .stride = k + PADDING, .dtype = dtype, .tile = tile
	};

	s.data = host_new(rows * s.stride * size_of(dtype));
	for (size_t i = 0; i < rows; i++) {
		for (size_t l = 0; l < k; l++)
			store(dtype, s.data, i * s.stride + l, value(exact));
	}
	if (is_fp8(dtype))
		scales_init(&s, exact);
	return s;
}

static inline void side_release(struct side *s)
{
	free(s->data);
	free(s->scales);
}

static inline double side_at(const struct side *s, size_t i, size_t l)
{
	double v = load(s->dtype, s->data, i * s->stride + l);
	size_t row = s->tile.rows == WHOLE ? 0 : i / s->tile.rows,
	       col = s->tile.cols == WHOLE ? 0 : l / s->tile.cols;
	size_t at;

	if (!is_fp8(s->dtype))
		return v;
	at = scale_index(&s->grid, row, col);
	if (s->tile.cols == 32)
		return v * ldexp(1, ((const uint8_t *)s->scales)[at] - 127);
	return v * ((const float *)s->scales)[at];
}

/* --- on the device --- */

/* What a test multiplies: all of it on both sides. */
struct bench {
	struct side a, b;
	struct gpu_gemm g;
	struct gpu_gemm_space space;
	void *d; /* (m, stride of D), as it came back */
	float scale, scale_inv, history;
};

static inline void *to_device(const void *host, size_t size)
{
	struct device_stream *stream = device_stream_here();
	void *there = device_take(stream, size);

	device_bytes_in(stream, there, host, size);
	return there;
}

static inline struct gpu_operand operand_of(const struct side *s)
{
	struct gpu_operand o = { .dtype = s->dtype, .stride = s->stride, .tile = s->tile };

	o.data = to_device(s->data, s->rows * s->stride * size_of(s->dtype));
	if (is_fp8(s->dtype))
		o.scale_inv = to_device(s->scales,
					s->grid.rows * s->grid.cols * (s->tile.cols == 32 ? 1 : 4));
	return o;
}

static inline size_t d_size(const struct bench *t)
{
	return t->g.m * t->g.d.stride * size_of(t->g.d.dtype);
}

static inline void bench_init(struct bench *t, const struct kind *kind, size_t m, size_t n,
			      size_t k)
{
	bool exact = is_fp8(kind->d);

	simt_capability = kind->capability;
	device_begin(device_stream_here());
	*t = (struct bench){ .scale = 0.75f, .scale_inv = -1, .history = 2 };
	t->a = side_new(m, k, kind->a, kind->a_tile, exact);
	t->b = side_new(n, k, kind->b, kind->b_tile, exact);
	t->g = (struct gpu_gemm){ .m = m,
				  .n = n,
				  .k = k,
				  .a = operand_of(&t->a),
				  .b = operand_of(&t->b),
				  .fast = kind->fast };
	t->g.d.dtype = kind->d;
	t->g.d.stride = n + PADDING;
	t->d = host_new(d_size(t));
	t->g.d.data = to_device(t->d, d_size(t));
	if (is_fp8(kind->d)) {
		t->g.d.scale = to_device(&t->scale, sizeof t->scale);
		t->g.d.scale_inv = to_device(&t->scale_inv, sizeof t->scale_inv);
		t->g.d.history = to_device(&t->history, sizeof t->history);
	}
}

static inline void bench_release(struct bench *t)
{
	side_release(&t->a);
	side_release(&t->b);
	free(t->d);
	simt_capability = 90;
}

/* 0, or what the stream says. */
static inline int bench_run(struct bench *t, struct err *err)
{
	struct device_stream *stream = device_stream_here();

	gpu_gemm(stream, &t->space, &t->g);
	device_bytes_out(stream, t->d, t->g.d.data, d_size(t));
	if (t->g.d.scale_inv)
		device_bytes_out(stream, &t->scale_inv, t->g.d.scale_inv, 4);
	if (t->g.d.history)
		device_bytes_out(stream, &t->history, t->g.d.history, 4);
	device_wait(stream);
	assert_int_equal(simt_lt_objects, simt_lt_kept);
	return device_stream_failed(stream, err);
}

static inline void bench_run_well(struct bench *t)
{
	struct err err;

	if (gpu_gemm_supports(&t->g, &err) || bench_run(t, &err))
		fail_msg("%s", err.message);
}

/* --- products --- */

/* Of (i, j); *magnitude: the sum of the products' magnitudes. */
static inline double product_at(const struct bench *t, size_t i, size_t j, double *magnitude)
{
	double sum = 0;

	*magnitude = 0;
	for (size_t l = 0; l < t->g.k; l++) {
		double p = side_at(&t->a, i, l) * side_at(&t->b, j, l);

		sum += p;
		*magnitude += fabs(p);
	}
	return sum;
}

/* Sums in fp32 in any order are off by k roundings of at most the sum of magnitudes; bf16 rounds
 * once more. */
static inline double bound(const struct bench *t, double exact, double magnitude)
{
	double sums = ldexp((double)t->g.k * magnitude, -24);

	return sums + (t->g.d.dtype == DT_BF16 ? ldexp(fabs(exact) + sums, -8) : 0);
}

/* Codes have no bound: their sums are exact. */
static inline void element_check(const struct bench *t, size_t i, size_t j, double exact,
				 double magnitude)
{
	size_t at = i * t->g.d.stride + j;

	if (is_fp8(t->g.d.dtype)) {
		uint8_t wanted = fp8_from_f32(format_of(t->g.d.dtype), (float)exact * t->scale),
			code = ((uint8_t *)t->d)[at];

		if (code != wanted)
			fail_msg("(%zu, %zu): code %02x, not %02x", i, j, code, wanted);
	} else {
		double got = load(t->g.d.dtype, t->d, at);

		if (!(fabs(got - exact) <= bound(t, exact, magnitude)))
			fail_msg("(%zu, %zu): %g, not %g", i, j, got, exact);
	}
}

/* What is between the rows of D stays. */
static inline void padding_check(const struct bench *t)
{
	size_t size = size_of(t->g.d.dtype), row_size = t->g.d.stride * size;
	const uint8_t *bytes = t->d;

	for (size_t i = 0; i < t->g.m; i++) {
		for (size_t at = t->g.n * size; at < row_size; at++)
			assert_int_equal(bytes[i * row_size + at], 0xFF);
	}
}

/* Returns the largest magnitude. */
static inline float product_check(const struct bench *t)
{
	double max = 0, magnitude;

	for (size_t i = 0; i < t->g.m; i++) {
		for (size_t j = 0; j < t->g.n; j++) {
			double exact = product_at(t, i, j, &magnitude);

			element_check(t, i, j, exact, magnitude);
			max = fmax(max, fabs(exact));
		}
	}
	padding_check(t);
	return (float)max;
}

static const struct kind kinds[] = {
	{ DT_BF16, DT_BF16, DT_BF16, { 0 }, { 0 }, 80, false },
	{ DT_BF16, DT_BF16, DT_F32, { 0 }, { 0 }, 90, false },
	{ DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 89, false },
	{ DT_F8_E4M3, DT_F8_E4M3, DT_F32, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, true },
	{ DT_F8_E5M2, DT_F8_E4M3, DT_BF16, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 120, false },
	{ DT_F8_E4M3, DT_F8_E4M3, DT_F8_E4M3, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false },
	{ DT_F8_E4M3, DT_F8_E5M2, DT_F8_E5M2, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 100, false },
	{ DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 1, 128 }, { 128, 128 }, 90, false },
	{ DT_F8_E4M3, DT_F8_E4M3, DT_F32, { 128, 128 }, { 1, 128 }, 90, false },
	{ DT_F8_E5M2, DT_F8_E4M3, DT_F32, { 1, 128 }, { 1, 128 }, 90, false },
	{ DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 1, 32 }, { 1, 32 }, 100, false },
	{ DT_F8_E4M3, DT_F8_E5M2, DT_F32, { 1, 32 }, { 1, 32 }, 103, false },
	{ DT_F32, DT_F32, DT_F32, { 0 }, { 0 }, 80, false },
};

#endif
