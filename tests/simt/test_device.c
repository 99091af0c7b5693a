/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU that cannot do what is asked of it, or fails: by the device of tests/simt.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "backend/self_test.h"
#include "num/scale_grid.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"

#define ROWS 130
#define COLS 150

static const struct qspec tensor = { .tile = { WHOLE, WHOLE } };
static const struct qspec block = { .tile = { 128, 128 }, .pow2 = true };
static const struct qspec small = { .tile = { 64, 64 } };
static const struct qspec mx = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 };

static const struct backend *cuda(void)
{
	struct err err;
	const struct backend *backend = backend_select("cuda", &err);

	assert_non_null(backend);
	return backend;
}

/* NVIDIA, "cuBLAS", FP8 and block-scaled types: FP8 from 8.9 on, blocks on 9.0, MX from 10.0 to
 * 11.x. */
static void capabilities_follow_the_architecture(void **state)
{
	static const struct {
		int capability;
		bool tensor, block, mx;
	} rows[] = { { 80, false, false, false }, { 89, true, false, false },
		     { 90, true, true, false },	  { 100, true, false, true },
		     { 103, true, false, true },  { 120, true, false, false } };
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		simt_capability = rows[i].capability;
		assert_int_equal(!backend_supports(cuda(), &tensor, &err), rows[i].tensor);
		assert_int_equal(!backend_supports(cuda(), &block, &err), rows[i].block);
		assert_int_equal(!backend_supports(cuda(), &mx, &err), rows[i].mx);
	}
	simt_capability = 86;
	assert_int_equal(backend_supports(cuda(), &block, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "a GPU of compute capability 8.6 has no matrix product "
					 "with block scaling, which needs 9.0");
	simt_capability = 90;
	simt_lt_version = 120805;
	assert_int_equal(backend_supports(cuda(), &tensor, &err), 0);
	assert_int_equal(backend_supports(cuda(), &block, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "cuBLASLt 12.8 has no matrix product with block scaling, "
					 "which needs 12.9 or later");
	simt_lt_version = 130000;
	assert_int_equal(backend_supports(cuda(), &small, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message,
			    "unsupported matrix product: tiles (64, 64) with such scales");
}

/* Every operation of the row, once. */
static void run_all(const float *values)
{
	static uint8_t codes[ROWS * COLS], turned[ROWS * COLS];
	static float scales[ROWS * COLS], turned_scales[ROWS * COLS], y[ROWS * COLS], rsigma[ROWS],
		amax[4];
	const struct matrix x = { values, DT_F32, ROWS, COLS, COLS },
			    row = { values, DT_F32, 1, COLS, COLS };
	struct quant_stats stats = { 0 };
	const struct quant_out out = { .codes = codes,
				       .stride = COLS,
				       .scale_inv = scales,
				       .scale_stride = 2,
				       .stats = &stats };
	const struct quant_in in = { .codes = codes,
				     .rows = ROWS,
				     .cols = COLS,
				     .stride = COLS,
				     .tile = { 128, 128 },
				     .scale_inv = scales,
				     .scale_stride = 2 };
	const struct fp8_out both = { .rowwise = { codes, COLS, 1, scales, scale_row_major(2, 2) },
				      .columnwise = { turned, ROWS, 1, turned_scales,
						      scale_row_major(2, 2) },
				      .stats = &stats };
	const struct norm_args norm = { .kind = NORM_RMS, .x = x, .gamma = row, .rsigma = rsigma };
	const struct activation_args act = { .activation = ACT_SILU, .x = x, .up = x };
	uint64_t n_nonfinite = 0;

	backend_amax(cuda(), &x, block.tile, amax, 2, &n_nonfinite);
	backend_cast(cuda(), &x, &block, NULL, 0, &out);
	backend_cast(cuda(), &x, &block, amax, 2, &out);
	backend_dequantize(cuda(), &in, DT_F32, y, COLS);
	backend_cast_transpose(cuda(), &x, &block, &both);
	backend_norm(cuda(), &norm, &block, &both);
	backend_activate(cuda(), &act, &block, &both);
}

/* Whatever call fails, those after it do nothing, and the error is told once, of the tensor. */
static void a_failed_call_is_told_once(void **state)
{
	float *values = malloc(ROWS * COLS * sizeof *values);
	struct err err;
	long n = 0;
	int rc;

	(void)state;
	assert_non_null(values);
	for (size_t i = 0; i < ROWS * COLS; i++)
		values[i] = (float)i;
	do {
		simt_calls_left = n;
		run_all(values);
		simt_calls_left = -1;
		rc = backend_failed(cuda(), "a.weight", &err);
		if (rc) {
			assert_int_equal(err.kind, ERR_SYSTEM);
			assert_int_equal(strncmp(err.message, "tensor 'a.weight': ", 19), 0);
			assert_non_null(strstr(err.message, " on GPU 0: "));
		}
		assert_int_equal(backend_failed(cuda(), "a.weight", &err), 0);
		n++;
	} while (rc);
	assert_true(n > 60); /* seven operations of eight calls and more */
	free(values);
}

/* What the operations on whole tiles wrote. */
struct written {
	uint8_t codes[ROWS * COLS];
	float scales[ROWS * COLS], amax[ROWS], y[ROWS * COLS];
	struct quant_stats stats;
	uint64_t n_nonfinite;
};

static int write_all(const float *values, struct tile tile, struct written *w, struct err *err)
{
	const struct matrix x = { values, DT_F32, ROWS, COLS, COLS };
	const struct qspec spec = { .tile = tile };
	size_t across = tile_count(COLS, tile.cols);
	const struct quant_out out = { .codes = w->codes,
				       .stride = COLS,
				       .scale_inv = w->scales,
				       .scale_stride = across,
				       .stats = &w->stats };
	const struct quant_in in = { .codes = w->codes,
				     .rows = ROWS,
				     .cols = COLS,
				     .stride = COLS,
				     .tile = tile,
				     .scale_inv = w->scales,
				     .scale_stride = across };

	memset(w, 0, sizeof *w);
	backend_amax(cuda(), &x, tile, w->amax, across, &w->n_nonfinite);
	if (tile.rows != WHOLE)
		backend_cast(cuda(), &x, &spec, NULL, 0, &out);
	backend_cast(cuda(), &x, &spec, w->amax, across, &out);
	backend_dequantize(cuda(), &in, DT_F32, w->y, COLS);
	return backend_failed(cuda(), "a.weight", err);
}

/* A GPU that is too full for a matrix takes it in smaller bands, with the same result, down to a
 * row of tiles. */
static void a_full_gpu_takes_smaller_bands(void **state)
{
	static const struct tile tiles[] = {
		{ 128, 128 }, { 32, 50 }, { 1, WHOLE }, { WHOLE, WHOLE }, { WHOLE, 7 }
	};
	static struct written whole, banded;
	static float values[ROWS * COLS];
	struct err err;

	(void)state;
	for (size_t i = 0; i < ROWS * COLS; i++)
		values[i] = (float)(i * 7919 % 1000) - (i % 977 ? 0 : INFINITY);
	for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
		size_t least = tiles[i].rows == 128 ? 128 : 32;

		assert_int_equal(write_all(values, tiles[i], &whole, &err), 0);
		assert_true(whole.stats.nonfinite > 0 &&
			    whole.stats.nonfinite % whole.n_nonfinite == 0);
		/* Rows on the GPU are a little longer, and some scales lie beside them. */
		for (size_t rows = 128; rows >= least; rows -= 17) {
			simt_room = rows * (COLS + 10) * (sizeof(float) + 1) + 1300;
			assert_int_equal(write_all(values, tiles[i], &banded, &err), 0);
			assert_memory_equal(&banded, &whole, sizeof whole);
		}
		simt_room = COLS;
		assert_int_equal(write_all(values, tiles[i], &banded, &err), -1);
		assert_string_equal(err.message,
				    "tensor 'a.weight': device_take on GPU 0: no room");
		simt_room = SIZE_MAX;
	}
}

/* Whether "auto" takes the GPU for forward passes where *left, a count of simt's, is n.  Its
 * self-test leaves nothing behind. */
static bool takes_gpu(long *left, long n)
{
	struct err err = { 0 }, refused = { 0 };
	long held = simt_held;
	const struct backend *backend;

	*left = n;
	backend = backend_select_forward("auto", 1, &refused, &err);
	*left = -1;
	assert_int_equal(simt_held, held);
	assert_int_equal(backend_failed(cuda(), "a.weight", &err), 0);
	assert_string_equal(err.message, "");
	assert_int_equal(refused.kind, backend == cuda() ? ERR_NONE : ERR_SYSTEM);
	assert_true(backend == cuda() || !backend->on_device);
	return backend == cuda();
}

/* With no name asked for, forward passes take a GPU where there is one, and nothing else does. */
static void auto_takes_a_gpu_for_forward_passes_alone(void **state)
{
	struct err err = { 0 }, refused = { 0 };

	(void)state;
	assert_true(cuda()->on_device);
	assert_true(takes_gpu(&simt_calls_left, -1));
	assert_false(backend_select("auto", &err)->on_device);
	assert_false(backend_select(NULL, &err)->on_device);
	assert_false(backend_select("cpu", &err)->on_device);
	assert_false(backend_select_forward("cpu", 1, &refused, &err)->on_device);
	assert_ptr_equal(backend_select_forward("cuda", 1, &refused, &err), cuda());
	simt_missing = "no CUDA-capable device is detected";
	assert_false(backend_select_forward("auto", 1, &refused, &err)->on_device);
	simt_missing = NULL;
	assert_int_equal(refused.kind, ERR_NONE);
}

/* It is refused where any call of its self-test fails, or a copy brings something wrong. */
static void a_failed_self_test_refuses_the_gpu(void **state)
{
	long calls = 0, copies = 0;

	(void)state;
	while (!takes_gpu(&simt_calls_left, calls))
		calls += 29;
	while (!takes_gpu(&simt_copies_left, copies))
		copies += 7;
	assert_true(
		calls > 18 * 15 &&
		copies >
			18 * 4); /* 18 casts there and back: of so many calls, that bring so much */
}

static bool codes_pass(long copies)
{
	struct err err;
	bool pass;

	simt_copies_left = copies;
	pass = !self_test_codes(cuda(), backends[0], &err);
	simt_copies_left = -1;
	return pass;
}

/* The self-test has a product too, behind the codes. */
static void a_wrong_product_refuses_the_gpu(void **state)
{
	long calls = 0, copies = 0, held = simt_held;
	struct err err;
	int rc;

	(void)state;
	do {
		simt_calls_left = calls++;
		rc = self_test_product(cuda()->executor, 0, &err);
		simt_calls_left = -1;
		assert_int_equal(simt_held, held);
	} while (rc);
	while (!codes_pass(copies))
		copies++;
	assert_false(takes_gpu(&simt_copies_left, copies));
	assert_true(takes_gpu(&simt_copies_left, copies + 1));
	assert_true(calls >
		    7); /* a stream, three pieces of memory, a weight, a product, what it gave */
}

/* Last in this program: a process chooses once.  GPU 2 becomes the first of two, and messages name
 * it. */
static void chosen_devices_are_the_only_ones(void **state)
{
	static const int chosen[] = { 2, 0 };
	struct err err = { 0 };
	struct executor *executor;
	struct executor_stream *stream;

	(void)state;
	simt_devices = 3;
	assert_int_equal(backend_n_devices(), 3);
	backend_use_devices(chosen, 2);
	assert_int_equal(backend_n_devices(), 2);
	assert_int_equal(cuda()->executor->open(&executor, 0, &err), 0);
	simt_calls_left = 0;
	assert_int_equal(cuda()->executor->stream_new(&stream, executor, &err), -1);
	simt_calls_left = -1;
	assert_string_equal(err.message, "device_stream_new on GPU 2: unspecified launch failure");
	cuda()->executor->close(executor);
	simt_missing = "no driver";
	assert_int_equal(backend_n_devices(), 0);
	simt_missing = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capabilities_follow_the_architecture),
		cmocka_unit_test(a_failed_call_is_told_once),
		cmocka_unit_test(a_full_gpu_takes_smaller_bands),
		cmocka_unit_test(auto_takes_a_gpu_for_forward_passes_alone),
		cmocka_unit_test(a_failed_self_test_refuses_the_gpu),
		cmocka_unit_test(a_wrong_product_refuses_the_gpu),
		cmocka_unit_test(chosen_devices_are_the_only_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
