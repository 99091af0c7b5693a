/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the GPU, by the cuBLASLt of tests/simt: every kind against sums in double;
 * what is written after one with codes; what is kept of what the library said.
 */
#include "tests/simt/gemm_setup.h"

#include <pthread.h>

#include "backend/dispatch.h"
#include "num/history.h"

/* Beyond one tile in every dimension, ragged; one row of tokens or four; five scales in a row,
 * which are padded to eight. */
static void products_of_every_kind_are_right(void **state)
{
	static const size_t shapes[][3] = {
		{ 132, 144, 160 }, { 4, 16, 32 }, { 12, 272, 544 }, { 140, 32, 672 }
	};

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

/* Only bf16 and fp32 take any shape, and FP8 any number of rows of A. */
static void bf16_and_fp32_take_any_shape(void **state)
{
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[0], 5, 7, 9);
	bench_run_well(&t);
	product_check(&t);
	bench_release(&t);
	bench_init(&t, &kinds[12], 1, 13, 37);
	bench_run_well(&t);
	product_check(&t);
	bench_release(&t);
	bench_init(&t, &kinds[2], 131, 24, 48);
	bench_run_well(&t);
	product_check(&t);
	bench_release(&t);
}

/* D += A^T B of square operands, after D = A B^T of the same shape. */
static void sum_check(const struct kind *kind)
{
	enum { N = 24 };
	float before[N][N];
	struct bench t;

	bench_init(&t, kind, N, N, N);
	bench_run_well(&t);
	product_check(&t);
	for (size_t i = 0; i < N; i++)
		memcpy(before[i], (float *)t.d + i * t.g.d.stride, sizeof before[i]);
	t.g.form = GEMM_SUM;
	bench_run_well(&t);
	for (size_t i = 0; i < N; i++) {
		for (size_t j = 0; j < N; j++) {
			double sum = before[i][j], magnitude = fabs(sum);
			float got = ((float *)t.d)[i * t.g.d.stride + j];

			for (size_t l = 0; l < N; l++) {
				sum += side_at(&t.a, l, i) * side_at(&t.b, l, j);
				magnitude += fabs(side_at(&t.a, l, i) * side_at(&t.b, l, j));
			}
			if (!(fabs(got - sum) <= ldexp((N + 1) * magnitude, -24)))
				fail_msg("(%zu, %zu): %g, not %g", i, j, got, sum);
		}
	}
	padding_check(&t);
	bench_release(&t);
}

static void sums_are_added_to_what_is_there(void **state)
{
	(void)state;
	sum_check(&kinds[1]);
	sum_check(&kinds[12]);
}

/* --- after a product with codes --- */

static uint32_t history_after(struct bench *t, float scale, float history)
{
	t->scale = scale;
	t->history = history;
	device_bytes_in(device_stream_here(), (void *)t->g.d.scale, &t->scale, 4);
	device_bytes_in(device_stream_here(), t->g.d.history, &t->history, 4);
	bench_run_well(t);
	return f32_bits(t->history);
}

/* To the bits of history_gemm_update(). */
static void the_update_equals_that_of_the_cpu(void **state)
{
	static const uint32_t scales[] = { 0x3F800000, 0x3E99999A, 0x7F7FFFFF,
					   0x00800000, 0x7F000000, 0x43E00000 };
	static const uint32_t histories[] = { 0, 0x3F800000, 0x7F800000, 0x7FC00000, 0x49742400 };
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
			uint32_t got = history_after(&t, f32_from_bits(scales[i]),
						     f32_from_bits(histories[j]));

			history_gemm_update(f32_from_bits(scales[i]), amax, &wanted_inv, &wanted);
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
static void no_rows_call_nothing(void **state)
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

static void an_algorithm_is_kept_by_shape(void **state)
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

/* Where rows must not depend on others, the library is asked once, for no number of rows. */
static void an_algorithm_for_any_rows_is_kept_once(void **state)
{
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[0], 40, 72, 56);
	t.g.any_m = true;
	assert_int_equal(asked(&t), 1);
	for (t.g.m = 39; t.g.m > 0; t.g.m -= 13)
		assert_int_equal(asked(&t), 0);
	t.g.m = 40;
	t.g.any_m = false;
	assert_int_equal(asked(&t), 1);
	bench_release(&t);
}

/* How many descriptors, layouts and preferences another product like it makes. */
static long made(struct bench *t)
{
	long before = simt_lt_made;

	bench_run_well(t);
	product_check(t);
	return simt_lt_made - before;
}

/* What describes a product without scales is made once for a shape; other products have a
 * descriptor and three or four layouts each time. */
static void a_shape_is_described_once(void **state)
{
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[0], 44, 80, 56);
	assert_int_equal(made(&t), 5); /* with the preference */
	assert_int_equal(made(&t), 0);
	t.g.any_m = true;
	assert_int_equal(made(&t), 5 + 4);
	assert_int_equal(made(&t), 4);
	bench_release(&t);
	bench_init(&t, &kinds[2], 44, 48, 64);
	made(&t);
	assert_int_equal(made(&t), 4);
	bench_release(&t);
}

/* An algorithm for addresses that are multiples of 256 is no good for others; one for some rows of
 * a matrix is so for all. */
static void an_algorithm_is_kept_by_alignment(void **state)
{
	struct bench t;
	struct err err;
	long before;
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
	bench_init(&t, &kinds[0], 24, 112, 232); /* rows 496 bytes apart */
	t.g.m = 22;
	assert_int_equal(asked(&t), 1);
	t.g.a.data = (const char *)t.g.a.data +
		     t.a.stride * 2; /* 256 divides the first address, 16 this one */
	t.g.d.data = (char *)t.g.d.data + t.g.d.stride * 2;
	before = simt_lt_asked;
	if (bench_run(&t, &err))
		fail_msg("%s", err.message);
	assert_int_equal(simt_lt_asked, before);
	bench_release(&t);
}

static void *multiply_here(void *shared)
{
	const struct bench *t = shared;
	struct gpu_gemm_space space = { 0 };

	for (int i = 0; i < 3; i++) {
		gpu_gemm(device_stream_here(), &space, &t->g);
		device_wait(device_stream_here());
	}
	return device_stream_failed(device_stream_here(), &(struct err){ 0 }) ? shared : NULL;
}

/* Threads that come at once to a new shape: one of them asks. */
static void an_algorithm_is_kept_for_all_threads(void **state)
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
	assert_int_equal(simt_lt_objects, simt_lt_kept);
	for (int i = 0; i < 4; i++) {
		device_bytes_out(device_stream_here(), t[i].d, t[i].g.d.data, d_size(&t[i]));
		product_check(&t[i]);
	}
	bench_release(&t[0]);
}

/* The workspace that was taken serves all products that need no more. */
static void the_workspace_is_kept(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_of_every_kind_are_right),
		cmocka_unit_test(bf16_and_fp32_take_any_shape),
		cmocka_unit_test(sums_are_added_to_what_is_there),
		cmocka_unit_test(the_update_equals_that_of_the_cpu),
		cmocka_unit_test(no_rows_call_nothing),
		cmocka_unit_test(an_algorithm_is_kept_by_shape),
		cmocka_unit_test(an_algorithm_for_any_rows_is_kept_once),
		cmocka_unit_test(a_shape_is_described_once),
		cmocka_unit_test(an_algorithm_is_kept_by_alignment),
		cmocka_unit_test(an_algorithm_is_kept_for_all_threads),
		cmocka_unit_test(the_workspace_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
