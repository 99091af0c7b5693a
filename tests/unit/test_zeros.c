/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of zeros in codes, and the scales of tiles of zeros.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "verify/values/zeros.h"

#define COLS 96
#define ROWS 128
#define N    (ROWS * COLS)

/* Codes without a zero, as bytes that do not repeat at any power of two. */
static void fill(uint8_t *codes)
{
	for (size_t i = 0; i < N; i++)
		codes[i] = (uint8_t)(1 + i % 113);
}

/* A run of 4096 has no end but its own, wherever it begins, with either zero in it. */
static void a_run_is_found_at_every_place(void **state)
{
	uint8_t codes[N];

	(void)state;
	for (size_t begin = 0; begin + ZERO_RUN <= N; begin += 37) {
		struct zero_run run = { 0 };

		fill(codes);
		memset(codes + begin, 0, ZERO_RUN);
		memset(codes + begin + 100, 0x80, 1000);
		assert_true(zero_run_next(codes, N, ZERO_RUN, &run));
		assert_int_equal(run.begin, begin);
		assert_int_equal(run.end, begin + ZERO_RUN);
		assert_false(zero_run_next(codes, N, ZERO_RUN, &run));
	}
}

static void a_shorter_run_is_none(void **state)
{
	struct zero_run run = { 0 };
	uint8_t codes[N];

	(void)state;
	fill(codes);
	memset(codes + 64, 0, ZERO_RUN - 1);
	memset(codes + 64 + ZERO_RUN, 0, ZERO_RUN - 1);
	assert_false(zero_run_next(codes, N, ZERO_RUN, &run));
}

/* A weight that is smaller than a page: the run is all of it. */
static void a_small_weight_is_one_run(void **state)
{
	uint8_t codes[5] = { 0, 0x80, 0, 0, 0x80 };
	struct zero_run run = { 0 };

	(void)state;
	assert_true(zero_run_next(codes, 5, 5, &run));
	assert_int_equal(run.end - run.begin, 5);
	codes[4] = 1;
	run = (struct zero_run){ 0 };
	assert_false(zero_run_next(codes, 5, 5, &run));
}

static bool is_cut(const uint8_t *codes, size_t begin, size_t end)
{
	return zero_run_is_cut(codes, N, COLS, (struct zero_run){ begin, end });
}

/* Rows that were pruned, also beside columns that were, and a page that a file has not got. */
static void pruned_rows_and_columns_are_not_cut(void **state)
{
	uint8_t codes[N];

	(void)state;
	fill(codes);
	memset(codes + 3 * COLS, 0, 43 * COLS);
	assert_false(is_cut(codes, 3 * COLS, 46 * COLS));
	for (size_t row = 0; row < ROWS; row++)
		memset(codes + row * COLS, 0, 32);
	assert_false(is_cut(codes, 3 * COLS, 46 * COLS + 32));
	fill(codes);
	memset(codes + 3 * COLS + 40, 0, ZERO_RUN);
	assert_true(is_cut(codes, 3 * COLS + 40, 3 * COLS + 40 + ZERO_RUN));
	/* It begins with a row and ends inside of one. */
	fill(codes);
	memset(codes + 4 * COLS, 0, ZERO_RUN);
	assert_true(is_cut(codes, 4 * COLS, 4 * COLS + ZERO_RUN));
	/* Zeros by chance at the end of the row before. */
	fill(codes);
	memset(codes + 4 * COLS - 3, 0, 3 + 43 * COLS);
	assert_false(is_cut(codes, 4 * COLS - 3, 47 * COLS));
}

/* 1 is TransformerEngine's and ModelOpt's; slime, SkyRL and DeepGEMM divide a floor by 448, the
 * last also as the power of two above; compressed-tensors takes the epsilon of its type; E8M0 byte
 * 0 is cuBLAS's, 127 is 1. */
static void scales_of_zeros_are_known(void **state)
{
	const struct arithmetic recorded = { .name = "te", .spec = { .amax_epsilon = 0.5f } };
	struct zero_scales known;
	const float floors[] = { 1e-12f, 1e-10f, 1e-4f };

	(void)state;
	zero_scales_list(&known, &(struct arithmetic){ 0 });
	assert_true(zero_scale_is_known(&known, SCALE_F32, DT_F32, 1));
	for (size_t i = 0; i < 3; i++)
		assert_true(zero_scale_is_known(&known, SCALE_F32, DT_F32, floors[i] / 448.0f));
	assert_true(zero_scale_is_known(&known, SCALE_F32, DT_F32, 0x1p-22f));
	assert_true(zero_scale_is_known(&known, SCALE_F32, DT_BF16, 0x1p-7f));
	assert_false(zero_scale_is_known(&known, SCALE_F32, DT_F32, 0x1p-7f));
	assert_true(zero_scale_is_known(&known, SCALE_F32, DT_F32, 0x1p-23f));
	assert_true(zero_scale_is_known(&known, SCALE_E8M0, DT_U8, 0x1p-127f));
	assert_true(zero_scale_is_known(&known, SCALE_E8M0, DT_U8, 1));
	assert_false(zero_scale_is_known(&known, SCALE_E8M0, DT_U8, 0x1p-9f));
	assert_false(zero_scale_is_known(&known, SCALE_F32, DT_F32, 0.001f));
	assert_false(zero_scale_is_known(&known, SCALE_F32, DT_F32, 0.5f / 448.0f));
	zero_scales_list(&known, &recorded);
	assert_true(zero_scale_is_known(&known, SCALE_F32, DT_F32, 1.0f / (448.0f / 0.5f)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_found_at_every_place),
		cmocka_unit_test(a_shorter_run_is_none),
		cmocka_unit_test(a_small_weight_is_one_run),
		cmocka_unit_test(pruned_rows_and_columns_are_not_cut),
		cmocka_unit_test(scales_of_zeros_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
