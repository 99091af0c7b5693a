/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the GPU, by the cuBLASLt of tests/simt: every kind against sums in double that are taken here, from the tile
 * grids of num/scale_grid.h.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/gemm.h"
#include "num/float16.h"
#include "num/fp8.h"
#include "num/history.h"
#include "num/scale_grid.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"

#define PADDING 16 /* elements between rows, of NaN */
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

static uint32_t random_bits(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33);
}

static bool is_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2;
}

static size_t size_of(enum dtype dtype)
{
	return dtype_bits(dtype) / 8;
}

static enum fp8_format format_of(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 ? FP8_E4M3 : FP8_E5M2;
}

static float load(enum dtype dtype, const void *data, size_t i)
{
	if (dtype == DT_BF16)
		return bf16_to_f32(((const uint16_t *)data)[i]);
	return is_fp8(dtype) ? fp8_to_f32(format_of(dtype), ((const uint8_t *)data)[i]) : ((const float *)data)[i];
}

static void store(enum dtype dtype, void *data, size_t i, float v)
{
	if (dtype == DT_BF16)
		((uint16_t *)data)[i] = bf16_from_f32(v);
	else if (is_fp8(dtype))
		((uint8_t *)data)[i] = fp8_from_f32(format_of(dtype), v);
}

/* Between -4 and 4, whole numbers where sums are to be exact. */
static float value(bool exact)
{
	float v = (float)(random_bits() % 8001) / 1000 - 4;

	return exact ? rintf(v) : v;
}

static void *host_new(size_t size)
{
	void *memory = malloc(size ? size : 1);

	assert_non_null(memory);
	memset(memory, 0xFF, size); /* NaN in every type here */
	return memory;
}

static void scales_init(struct side *s, bool exact)
{
	const struct qspec spec = { .tile = s->tile, .scale_type = s->tile.cols == 32 ? SCALE_E8M0 : SCALE_F32 };

	s->grid = scale_grid_of(&spec, s->rows, s->k, false, SCALES_GEMM);
	s->scales = host_new(s->grid.rows * s->grid.cols * scale_size(spec.scale_type));
	for (size_t i = 0; i < tile_count(s->rows, s->tile.rows); i++) {
		for (size_t j = 0; j < tile_count(s->k, s->tile.cols); j++) {
			size_t at = scale_index(&s->grid, i, j);

			if (spec.scale_type == SCALE_E8M0)
				((uint8_t *)s->scales)[at] = (uint8_t)(120 + random_bits() % 12);
			else
				((float *)s->scales)[at] = exact ? 0.25f : 0.01f + (float)(random_bits() % 1000) / 500;
		}
	}
}

static struct side side_new(size_t rows, size_t k, enum dtype dtype, struct tile tile, bool exact)
{
	struct side s = { .rows = rows, .k = k, .stride = k + PADDING, .dtype = dtype, .tile = tile };

	s.data = host_new(rows * s.stride * size_of(dtype));
	for (size_t i = 0; i < rows; i++) {
		for (size_t l = 0; l < k; l++)
			store(dtype, s.data, i * s.stride + l, value(exact));
	}
	if (is_fp8(dtype))
		scales_init(&s, exact);
	return s;
}

static void side_release(struct side *s)
{
	free(s->data);
	free(s->scales);
}

static double side_at(const struct side *s, size_t i, size_t l)
{
	double v = load(s->dtype, s->data, i * s->stride + l);
	size_t row = s->tile.rows == WHOLE ? 0 : i / s->tile.rows, col = s->tile.cols == WHOLE ? 0 : l / s->tile.cols;
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

static void *to_device(const void *host, size_t size)
{
	struct device_lane *lane = device_lane();
	void *there = device_take(lane, size);

	device_copy_in(lane, there, size, host, size, size, 1);
	return there;
}

static struct gpu_operand operand_of(const struct side *s)
{
	struct gpu_operand o = { .dtype = s->dtype, .stride = s->stride, .tile = s->tile };

	o.data = to_device(s->data, s->rows * s->stride * size_of(s->dtype));
	if (is_fp8(s->dtype))
		o.scale_inv = to_device(s->scales, s->grid.rows * s->grid.cols * (s->tile.cols == 32 ? 1 : 4));
	return o;
}

static size_t d_size(const struct bench *t)
{
	return t->g.m * t->g.d.stride * size_of(t->g.d.dtype);
}

static void bench_init(struct bench *t, const struct kind *kind, size_t m, size_t n, size_t k)
{
	bool exact = is_fp8(kind->d);

	simt_capability = kind->capability;
	device_begin(device_lane());
	*t = (struct bench){ .scale = 0.75f, .scale_inv = -1, .history = 2 };
	t->a = side_new(m, k, kind->a, kind->a_tile, exact);
	t->b = side_new(n, k, kind->b, kind->b_tile, exact);
	t->g = (struct gpu_gemm){ .m = m, .n = n, .k = k, .a = operand_of(&t->a), .b = operand_of(&t->b), .fast = kind->fast };
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

static void bench_release(struct bench *t)
{
	side_release(&t->a);
	side_release(&t->b);
	free(t->d);
	simt_capability = 90;
}

/* 0, or what the lane says. */
static int bench_run(struct bench *t, struct err *err)
{
	struct device_lane *lane = device_lane();

	gpu_gemm(lane, &t->space, &t->g);
	device_copy_out(lane, t->d, d_size(t), t->g.d.data, d_size(t), d_size(t), 1);
	if (t->g.d.scale_inv)
		device_copy_out(lane, &t->scale_inv, 4, t->g.d.scale_inv, 4, 4, 1);
	if (t->g.d.history)
		device_copy_out(lane, &t->history, 4, t->g.d.history, 4, 4, 1);
	device_wait(lane);
	assert_int_equal(simt_lt_objects, 0);
	return device_lane_failed(lane, err);
}

static void bench_run_well(struct bench *t)
{
	struct err err;

	if (gpu_gemm_supports(&t->g, &err) || bench_run(t, &err))
		fail_msg("%s", err.message);
}

/* --- products --- */

/* Of (i, j); *magnitude: the sum of the products' magnitudes. */
static double product_at(const struct bench *t, size_t i, size_t j, double *magnitude)
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

/* Sums in fp32 in any order are off by k roundings of at most the sum of magnitudes; bf16 rounds once more. */
static double bound(const struct bench *t, double exact, double magnitude)
{
	double sums = ldexp((double)t->g.k * magnitude, -24);

	return sums + (t->g.d.dtype == DT_BF16 ? ldexp(fabs(exact) + sums, -8) : 0);
}

/* Codes have no bound: their sums are exact. */
static void element_check(const struct bench *t, size_t i, size_t j, double exact, double magnitude)
{
	size_t at = i * t->g.d.stride + j;

	if (is_fp8(t->g.d.dtype)) {
		uint8_t wanted = fp8_from_f32(format_of(t->g.d.dtype), (float)exact * t->scale), code = ((uint8_t *)t->d)[at];

		if (code != wanted)
			fail_msg("(%zu, %zu): code %02x, not %02x", i, j, code, wanted);
	} else {
		double got = load(t->g.d.dtype, t->d, at);

		if (!(fabs(got - exact) <= bound(t, exact, magnitude)))
			fail_msg("(%zu, %zu): %g, not %g", i, j, got, exact);
	}
}

/* What is between the rows of D stays. */
static void padding_check(const struct bench *t)
{
	size_t size = size_of(t->g.d.dtype), row_size = t->g.d.stride * size;
	const uint8_t *bytes = t->d;

	for (size_t i = 0; i < t->g.m; i++) {
		for (size_t at = t->g.n * size; at < row_size; at++)
			assert_int_equal(bytes[i * row_size + at], 0xFF);
	}
}

/* Returns the largest magnitude. */
static float product_check(const struct bench *t)
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
};

/* Beyond one tile in every dimension, ragged; one row of tokens or four; five scales in a row, which are padded to eight. */
static void products(void **state)
{
	static const size_t shapes[][3] = { { 132, 144, 160 }, { 4, 16, 32 }, { 12, 272, 544 }, { 140, 32, 672 } };

	(void)state;
	for (size_t i = 0; i < N_ROWS(kinds); i++) {
		for (size_t s = 0; s < N_ROWS(shapes); s++) {
			struct bench t;
			float max;

			bench_init(&t, &kinds[i], shapes[s][0], shapes[s][1], shapes[s][2]);
			bench_run_well(&t);
			max = product_check(&t);
			if (is_fp8(t.g.d.dtype)) {
				assert_true(t.history == (max > 2 ? max : 2));
				assert_true(t.scale_inv == 1 / 0.75f);
			}
			bench_release(&t);
		}
	}
}

/* Only bf16 takes any shape, and FP8 any number of rows of A. */
static void odd_shapes(void **state)
{
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[0], 5, 7, 9);
	bench_run_well(&t);
	product_check(&t);
	bench_release(&t);
	bench_init(&t, &kinds[2], 131, 24, 48);
	bench_run_well(&t);
	product_check(&t);
	bench_release(&t);
}

/* --- after a product with codes --- */

static uint32_t history_after(struct bench *t, float scale, float history)
{
	t->scale = scale;
	t->history = history;
	device_copy_in(device_lane(), (void *)t->g.d.scale, 4, &t->scale, 4, 4, 1);
	device_copy_in(device_lane(), t->g.d.history, 4, &t->history, 4, 4, 1);
	bench_run_well(t);
	return f32_bits(t->history);
}

/* To the bits of the row's gemm_update(), the specification. */
static void update(void **state)
{
	static const uint32_t scales[] = { 0x3F800000, 0x3E99999A, 0x7F7FFFFF, 0x00800000, 0x7F000000, 0x43E00000 };
	static const uint32_t histories[] = { 0, 0x3F800000, 0x7F800000, 0x7FC00000, 0x49742400 };
	const struct backend *reference = backend_select("reference", NULL);
	struct bench t;
	float amax;

	(void)state;
	bench_init(&t, &kinds[5], 8, 16, 32);
	history_after(&t, 1, 0);
	amax = product_check(&t);
	assert_true(amax > 1);
	for (size_t i = 0; i < N_ROWS(scales); i++) {
		for (size_t j = 0; j < N_ROWS(histories); j++) {
			float wanted_inv, wanted = f32_from_bits(histories[j]);
			uint32_t got = history_after(&t, f32_from_bits(scales[i]), f32_from_bits(histories[j]));

			reference->gemm_update(f32_from_bits(scales[i]), amax, &wanted_inv, &wanted);
			assert_int_equal(got, f32_bits(wanted));
			assert_int_equal(f32_bits(t.scale_inv), f32_bits(wanted_inv));
			product_check(&t);
		}
	}
	t.g.d.history = NULL; /* nobody keeps one */
	t.scale_inv = 0;
	bench_run_well(&t);
	assert_true(t.scale_inv != 0);
	bench_release(&t);
}

/* Without rows there are no codes, and nothing is called. */
static void nothing(void **state)
{
	struct bench t;
	long products_before = simt_lt_products;

	(void)state;
	bench_init(&t, &kinds[5], 16, 16, 32);
	t.g.m = 0;
	bench_run_well(&t);
	assert_int_equal(simt_lt_products, products_before);
	assert_true(t.scale_inv == -1);
	bench_release(&t);
}

/* --- what is kept --- */

/* How often the library was asked for this product. */
static long asked(struct bench *t)
{
	long before = simt_lt_asked;

	bench_run_well(t);
	product_check(t);
	return simt_lt_asked - before;
}

static void kept_by_shape(void **state)
{
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[2], 40, 48, 64);
	assert_int_equal(asked(&t), 1);
	assert_int_equal(asked(&t), 0);
	t.g.m = 36; /* another shape */
	assert_int_equal(asked(&t), 1);
	t.g.fast = true;
	assert_int_equal(asked(&t), 1);
	t.g.m = 40;
	t.g.fast = false;
	assert_int_equal(asked(&t), 0);
	bench_release(&t);
	bench_init(&t, &kinds[4], 40, 48, 64); /* other types */
	assert_int_equal(asked(&t), 1);
	bench_release(&t);
	bench_init(&t, &kinds[10], 40, 48, 64); /* other tiles */
	assert_int_equal(asked(&t), 1);
	bench_release(&t);
}

/* An algorithm for addresses that are multiples of 256 is no good for others. */
static void kept_by_alignment(void **state)
{
	struct bench t;
	void *more;

	(void)state;
	bench_init(&t, &kinds[0], 24, 112, 240); /* rows 256 and 512 bytes apart */
	assert_int_equal(asked(&t), 1);
	more = host_new(d_size(&t) + 2);
	t.g.d.data = (char *)to_device(more, d_size(&t) + 2) + 2;
	assert_int_equal(asked(&t), 1);
	assert_int_equal(asked(&t), 0);
	free(more);
	bench_release(&t);
}

static void *multiply_here(void *shared)
{
	const struct bench *t = shared;
	struct gpu_gemm_space space = { 0 };

	for (int i = 0; i < 3; i++) {
		gpu_gemm(device_lane(), &space, &t->g);
		device_wait(device_lane());
	}
	return device_lane_failed(device_lane(), &(struct err){ 0 }) ? shared : NULL;
}

/* Threads that come at once to a new shape: one of them asks. */
static void kept_for_all_threads(void **state)
{
	struct bench t[4];
	pthread_t threads[4];
	long before = simt_lt_asked;
	void *failed;

	(void)state;
	bench_init(&t[0], &kinds[2], 72, 80, 96);
	for (int i = 0; i < 4; i++) {
		t[i] = t[0];
		t[i].g.d.data = to_device(t[0].d, d_size(&t[0]));
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, multiply_here, &t[i]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(simt_lt_asked - before, 1);
	assert_int_equal(simt_lt_objects, 0);
	for (int i = 0; i < 4; i++) {
		device_copy_out(device_lane(), t[i].d, d_size(&t[i]), t[i].g.d.data, d_size(&t[i]), d_size(&t[i]), 1);
		product_check(&t[i]);
	}
	bench_release(&t[0]);
}

/* The workspace that was taken serves all products that need no more. */
static void workspace_is_kept(void **state)
{
	struct bench t;
	void *large;

	(void)state;
	bench_init(&t, &kinds[2], 64, 48, 64);
	bench_run_well(&t);
	large = t.space.workspace;
	assert_non_null(large);
	t.g.m = 32;
	bench_run_well(&t);
	assert_ptr_equal(t.space.workspace, large);
	t.g.m = 64;
	bench_run_well(&t);
	assert_ptr_equal(t.space.workspace, large);
	bench_release(&t);
}

/* --- failures --- */

/* Each call of the library fails once, wherever it is made: the lane names it, what was written is not touched by what comes
 * after, nothing is left behind, and the next product goes well. */
static void failures(void **state)
{
	static const char *const names[] = { "MatmulDescCreate",	       "MatmulDescSetAttribute", "MatrixLayoutCreate",
					     "MatmulPreferenceCreate",	       "MatmulAlgoGetHeuristic",
					     "MatmulPreferenceSetAttribute", "Matmul" };
	size_t m = 1000;

	(void)state;
	for (size_t i = 0; i < N_ROWS(names); i++) {
		int rc, n = 0;

		do {
			struct err err = { 0 };
			struct bench t;

			bench_init(&t, &kinds[5], ++m, 16, 32); /* a new shape, so that all is called */
			simt_lt_fails = names[i];
			simt_lt_fails_after = n++;
			rc = bench_run(&t, &err);
			simt_lt_fails = NULL;
			if (rc) {
				assert_int_equal(err.kind, ERR_SYSTEM);
				assert_int_equal(strncmp(err.message, "cublasLt", 8), 0);
				assert_int_equal(strncmp(err.message + 8, names[i], strlen(names[i])), 0);
				assert_string_equal(err.message + 8 + strlen(names[i]),
						    " on GPU 0: the GPU program failed to execute");
				assert_true(t.scale_inv == -1 && t.history == 2);
				bench_run_well(&t);
			}
			product_check(&t);
			bench_release(&t);
		} while (rc);
		assert_true(n > 1);
	}
}

/* A device that fails while a product is prepared. */
static void device_failures(void **state)
{
	struct err err;
	long n = 0;
	int rc;

	(void)state;
	do {
		struct bench t;

		bench_init(&t, &kinds[5], 16, 16, 32);
		simt_calls_left = n++;
		rc = bench_run(&t, &err);
		simt_calls_left = -1;
		bench_release(&t);
	} while (rc);
	assert_true(n > 5);
}

/* What a row of refusals() changes in a product that is supported. */
struct refusal {
	struct kind kind;
	size_t m, n, k;
	int version;
	const char *message;
};

#define BLOCKS DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 1, 128 }, { 128, 128 }
#define TENSOR DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { WHOLE, WHOLE }, { WHOLE, WHOLE }
#define MX     DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 1, 32 }, { 1, 32 }

static const struct refusal refused[] = {
	{ { TENSOR, 86, false }, 16, 16, 32, 130000,
	  "a GPU of compute capability 8.6 has no matrix product with FP8 operands, which needs 8.9 or later" },
	{ { BLOCKS, 89, false }, 16, 16, 32, 130000,
	  "a GPU of compute capability 8.9 has no matrix product with block scaling, which needs 9.0" },
	{ { BLOCKS, 100, false }, 16, 16, 32, 130000,
	  "a GPU of compute capability 10.0 has no matrix product with block scaling, which needs 9.0" },
	{ { MX, 90, false }, 16, 16, 32, 130000,
	  "a GPU of compute capability 9.0 has no matrix product with MX blocks, which needs 10.0 to 11.x" },
	{ { MX, 120, false }, 16, 16, 32, 130000,
	  "a GPU of compute capability 12.0 has no matrix product with MX blocks, which needs 10.0 to 11.x" },
	{ { BLOCKS, 90, false }, 16, 16, 32, 120805,
	  "cuBLASLt 12.8 has no matrix product with block scaling, which needs 12.9 or later" },
	{ { MX, 100, false }, 16, 16, 32, 120600, "cuBLASLt 12.6 has no matrix product with MX blocks, which needs 12.8 or later" },
	{ { BLOCKS, 90, false }, 18, 16, 32, 130000,
	  "a matrix product (18, 16, 32) with block scaling: m must be a multiple of 4, n of 8, k of 16" },
	{ { TENSOR, 90, false }, 16, 20, 32, 130000,
	  "a matrix product (16, 20, 32) with FP8 operands: m must be a multiple of 1, n of 8, k of 16" },
	{ { TENSOR, 90, false }, 16, 16, 40, 130000,
	  "a matrix product (16, 16, 40) with FP8 operands: m must be a multiple of 1, n of 8, k of 16" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_F8_E4M3, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false }, 16, 24, 32, 130000,
	  "a matrix product (16, 24, 32) with FP8 operands: m must be a multiple of 1, n of 16, k of 16" },
	{ { BLOCKS, 90, true }, 16, 16, 32, 130000, "there is no fast matrix product with block scaling" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_F8_E4M3, { 1, 128 }, { 128, 128 }, 90, false }, 16, 16, 32, 130000,
	  "there is no matrix product with block scaling whose result is FP8" },
	{ { DT_F8_E5M2, DT_F8_E5M2, DT_BF16, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false }, 16, 16, 32, 130000,
	  "there is no matrix product of F8_E5M2 by F8_E5M2 whose result is BF16" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_F8_E5M2, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false }, 16, 16, 32, 130000,
	  "there is no matrix product of F8_E4M3 by F8_E4M3 whose result is F8_E5M2" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 128, 128 }, { 128, 128 }, 90, false }, 16, 16, 32, 130000,
	  "there is no matrix product of tiles (128, 128) by (128, 128)" },
};

/* The library refuses them too, if it is asked all the same; D stays. */
static void refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ROWS(refused); i++) {
		const struct refusal *row = &refused[i];
		struct err err = { 0 };
		struct bench t;

		bench_init(&t, &row->kind, row->m, row->n, row->k);
		simt_lt_version = row->version;
		assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_string_equal(err.message, row->message);
		assert_int_equal(bench_run(&t, &err), -1);
		simt_lt_version = 130000;
		assert_int_equal(strncmp(err.message, "cublasLt", 8), 0);
		for (size_t at = 0; at < d_size(&t); at++)
			assert_int_equal(((uint8_t *)t.d)[at], 0xFF);
		bench_release(&t);
	}
}

static void misaligned(void **state)
{
	struct err err = { 0 };
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[2], 16, 16, 32);
	t.g.a.data = (const char *)t.g.a.data + 8;
	assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
	assert_string_equal(err.message, "a matrix product with FP8 operands: rows and scales must begin at multiples of 16 bytes");
	assert_int_equal(bench_run(&t, &err), -1);
	bench_release(&t);
	bench_init(&t, &kinds[7], 16, 16, 32);
	t.g.a.scale_inv = (const char *)t.g.a.scale_inv + 4;
	assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
	assert_int_equal(bench_run(&t, &err), -1);
	t.g.a.scale_inv = NULL;
	assert_int_equal(bench_run(&t, &err), -1);
	bench_release(&t);
}

/* No library, one without the functions, and one of CUDA 11. */
static void loading(void **state)
{
	static const char *const none[] = { "libnone.so.1", "libnone.so.2" }, *const other[] = { "libnone.so.1", "libm.so.6" };
	static const char *const itself[] = { NULL };
	struct cublaslt lt;
	struct err err;

	(void)state;
	assert_int_equal(cublaslt_load(&lt, none, 2, &err), -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_int_equal(strncmp(err.message, "cannot load cuBLASLt, which multiplies matrices on a GPU (libnone.so.2", 70), 0);
	assert_non_null(strstr(err.message, "): install the one of CUDA 12 or 13, or name its folder in LD_LIBRARY_PATH"));
	assert_int_equal(cublaslt_load(&lt, other, 2, &err), -1);
	assert_string_equal(err.message, "cuBLASLt has no function cublasLtGetVersion: version 12.0 or a later one is needed");
	simt_lt_version = 111103;
	assert_int_equal(cublaslt_load(&lt, itself, 1, &err), -1);
	assert_string_equal(err.message, "cuBLASLt is version 11.11: 12.0 or a later one is needed");
	simt_lt_version = 130000;
	assert_int_equal(cublaslt_load(&lt, itself, 1, &err), 0);
	assert_int_equal(lt.GetVersion(), 130000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loading),
		cmocka_unit_test(products),
		cmocka_unit_test(odd_shapes),
		cmocka_unit_test(update),
		cmocka_unit_test(nothing),
		cmocka_unit_test(kept_by_shape),
		cmocka_unit_test(kept_by_alignment),
		cmocka_unit_test(kept_for_all_threads),
		cmocka_unit_test(workspace_is_kept),
		cmocka_unit_test(failures),
		cmocka_unit_test(device_failures),
		cmocka_unit_test(refusals),
		cmocka_unit_test(misaligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
