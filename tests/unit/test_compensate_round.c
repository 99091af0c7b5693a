/* SPDX-License-Identifier: Apache-2.0
 *
 * compensate/round.h: the codes against the text in plain loops, against the recipe's own cast
 * where nothing is compensated, and what compensation is for: a smaller loss.
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
#include "backend/matrix.h"
#include "base/mem.h"
#include "compensate/round.h"
#include "support/kernel_parity.h"

/* clang-format off */
static const struct qspec specs[] = {
	{ .tile = { WHOLE, WHOLE } },
	{ .tile = { WHOLE, WHOLE }, .format = FP8_E5M2, .margin = 1 },
	{ .tile = { WHOLE, WHOLE }, .arith = ARITH_GIVEN },
	{ .tile = { 1, WHOLE } },
	{ .tile = { 1, WHOLE }, .format = FP8_E5M2, .pow2 = true },
	{ .tile = { 128, 128 }, .pow2 = true },
	{ .tile = { 128, 128 }, .arith = ARITH_DEEPSEEK },
	{ .tile = { 128, 128 }, .arith = ARITH_DEEPGEMM, .format = FP8_E5M2 },
	{ .tile = { 20, 24 }, .arith = ARITH_DEEPSEEK },
	{ .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
	{ .tile = { 1, 32 }, .scale_type = SCALE_E8M0, .format = FP8_E5M2, .mx_rule = MX_FLOOR },
};
/* clang-format on */
#define N_SPECS (sizeof specs / sizeof *specs)

static const struct {
	size_t rows, cols;
} shapes[] = { { 1, 1 }, { 33, 1 }, { 1, 50 }, { 31, 17 }, { 70, 129 }, { 40, 300 }, { 160, 65 } };
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* Where an element of w has its tile. */
static size_t tile_of(const struct qspec *spec, const struct matrix *w, size_t row, size_t col)
{
	size_t tile_row = spec->tile.rows == WHOLE ? 0 : row / spec->tile.rows;
	size_t tile_col = spec->tile.cols == WHOLE ? 0 : col / spec->tile.cols;

	return tile_row * tile_count(w->cols, spec->tile.cols) + tile_col;
}

/* The scalings of w by the reference's amaxes; the caller frees. */
static struct scaling *scales_of(const struct qspec *spec, const struct matrix *w)
{
	size_t n_rows = tile_count(w->rows, spec->tile.rows);
	size_t n_cols = tile_count(w->cols, spec->tile.cols);
	struct scaling *scales = xcalloc(n_rows * n_cols, sizeof *scales);
	float *amax = xcalloc(n_rows * n_cols, sizeof *amax);
	struct err err = { 0 };
	uint64_t n_nonfinite = 0;

	backend_amax(backend_select("reference", &err), w, spec->tile, amax, n_cols, &n_nonfinite);
	for (size_t i = 0; i < n_rows * n_cols; i++)
		scales[i] = scaling_from_amax(spec, spec->arith == ARITH_GIVEN ? 100 : amax[i],
					      scale_limit(DT_F32, spec->tile));
	free(amax);
	return scales;
}

static float u_at(const struct factor *factor, size_t i, size_t j)
{
	const struct triangle t = { factor->u, triangle_padded(factor->n) };

	if (!factor->u)
		return 0;
	return triangle_at(&t, i - i % TRIANGLE_PANEL, j)[i % TRIANGLE_PANEL];
}

/* The text, for one row. */
static void plain_row(const struct rounding *r, const struct matrix *w, size_t row, uint8_t *codes)
{
	float *e = xcalloc(w->cols, sizeof *e);

	for (size_t j = 0; j < w->cols; j++) {
		size_t col = r->factor->order[j];
		struct scaling scaling = r->scales[tile_of(r->spec, w, row, col)];
		float weight = matrix_at(w, row, col), acc = weight, value;

		for (size_t i = 0; i < j; i++)
			acc = fmaf(e[i], u_at(r->factor, i, j), acc);
		codes[row * w->cols + col] =
			fp8_from_f32(r->spec->format, scaling_apply(scaling, acc));
		value = fp8_to_f32(r->spec->format, codes[row * w->cols + col]) * scaling.scale_inv;
		e[j] = weight - value;
		if (!isfinite(e[j]))
			e[j] = 0;
	}
	free(e);
}

/* Rounds w in every way, and compares the codes with `expected`. */
static void assert_codes(struct rounding *rounding, const struct matrix *w, const uint8_t *expected)
{
	size_t n = w->rows * w->cols;
	struct err err = { 0 };

	for (size_t i = 0; way_at(i).ops; i++) {
		uint8_t *codes = guarded_new(n, 0xAA);

		rounding->ops = way_at(i).ops;
		rounding->n_threads = way_at(i).n_threads;
		assert_int_equal(round_matrix(rounding, w, codes, &err), 0);
		assert_memory_equal(codes, expected, n);
		guarded_free(codes, n);
	}
}

static struct factor factor_of(size_t n, float rho)
{
	float *h = hessian_new(n, rho < 1 ? 2 * n : 1, 77); /* with rho = 1 all give the same */
	const struct hessian hessian = { h, n, way_at(0).ops, 1, NULL };
	struct factor factor;
	struct err err = { 0 };

	assert_int_equal(factor_make(&factor, &hessian, rho, &err), 0);
	assert_true(factor.rho == rho);
	free(h);
	return factor;
}

/* Every content: subnormals, tiles of zeros, NaN and inf. */
static void codes_are_those_of_plain_loops(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_SHAPES; s++) {
		struct factor factor = factor_of(shapes[s].cols, 0.1f);

		for (enum content content = NORMAL; content <= BLOCKS; content++)
			for (size_t q = 0; q < N_SPECS; q++) {
				struct sample sample =
					sample_new(DT_F32, shapes[s].rows, shapes[s].cols, content);
				struct scaling *scales = scales_of(&specs[q], &sample.x);
				uint8_t *expected = xcalloc(shapes[s].rows, shapes[s].cols);
				struct rounding rounding = { .factor = &factor,
							     .spec = &specs[q],
							     .scales = scales };

				for (size_t row = 0; row < shapes[s].rows; row++)
					plain_row(&rounding, &sample.x, row, expected);
				assert_codes(&rounding, &sample.x, expected);
				free(expected);
				free(scales);
				guarded_free(sample.data, sample.size);
			}
		factor_release(&factor);
	}
}

/* With rho = 1, and with a Hessian of zeros. */
static void without_correlation_the_codes_are_those_of_the_cast(void **state)
{
	(void)state;
	for (size_t q = 0; q < N_SPECS; q++)
		for (enum content content = NORMAL; content <= BLOCKS; content++) {
			struct sample sample = sample_new(DT_F32, 70, 129, content);
			struct scaling *scales = scales_of(&specs[q], &sample.x);
			struct factor factor = factor_of(129, 1);
			struct rounding rounding = { .factor = &factor,
						     .spec = &specs[q],
						     .scales = scales };
			size_t n_tiles = tile_count(129, specs[q].tile.cols);
			uint8_t codes[70 * 129];
			float amax[70 * 129], scale_inv[70 * 129];
			struct quant_stats stats = { 0 };
			const struct quant_out out = { .codes = codes,
						       .stride = 129,
						       .scale_inv = scale_inv,
						       .scale_stride = n_tiles,
						       .stats = &stats };
			struct err err = { 0 };
			const struct backend *reference = backend_select("reference", &err);

			for (size_t i = 0; i < 70 * 129; i++)
				amax[i] = 100;
			backend_cast(reference, &sample.x, &specs[q],
				     specs[q].arith == ARITH_GIVEN ? amax : NULL, n_tiles, &out);
			assert_codes(&rounding, &sample.x, codes);
			factor.zero = true;
			assert_codes(&rounding, &sample.x, codes);
			factor_release(&factor);
			free(scales);
			guarded_free(sample.data, sample.size);
		}
}

/* Every bf16 number, which has all ties, and its neighbors in fp32. */
static void every_value_is_cast_as_num_casts_it(void **state)
{
	enum { ROWS = 3 * 32, COLS = 2048 };
	const struct scaling one = scaling_given(1);
	float *w = xcalloc(ROWS * COLS, sizeof *w);
	const struct matrix matrix = { w, DT_F32, ROWS, COLS, COLS };
	uint8_t *expected = xcalloc(ROWS, COLS);

	(void)state;
	for (uint32_t i = 0; i < ROWS * COLS; i++)
		w[i] = f32_from_bits((i / 3 << 16) + i % 3 - 1);
	for (enum fp8_format format = FP8_E4M3; format <= FP8_E5M2; format++) {
		const struct qspec spec = { .tile = { WHOLE, WHOLE }, .format = format };
		struct factor factor = factor_of(COLS, 1);
		struct rounding rounding = { .factor = &factor, .spec = &spec, .scales = &one };

		for (size_t i = 0; i < ROWS * COLS; i++)
			expected[i] = fp8_from_f32(format, w[i]);
		assert_codes(&rounding, &matrix, expected);
		factor_release(&factor);
	}
	free(w);
	free(expected);
}

/* Returns e H e^T of all rows. */
static double loss(const struct rounding *r, const struct matrix *w, const uint8_t *codes,
		   const float *h)
{
	size_t n = w->cols;
	double *e = xcalloc(n, sizeof *e), sum = 0;

	for (size_t row = 0; row < w->rows; row++) {
		for (size_t j = 0; j < n; j++)
			e[j] = (double)matrix_at(w, row, j) -
			       (double)fp8_to_f32(r->spec->format, codes[row * n + j]) *
				       (double)r->scales[tile_of(r->spec, w, row, j)].scale_inv;
		for (size_t i = 0; i < n; i++)
			for (size_t j = i; j < n; j++)
				sum += (i == j ? 1 : 2) * e[i] * e[j] * (double)h[i * n + j];
	}
	free(e);
	return sum;
}

static void compensation_makes_the_loss_smaller(void **state)
{
	enum { ROWS = 48, COLS = 256 };

	(void)state;
	for (size_t q = 0; q < N_SPECS; q++) {
		float *h = hessian_new(COLS, 4 * COLS, 5);
		const struct hessian hessian = { h, COLS, way_at(0).ops, 1, NULL };
		struct sample sample = sample_new(DT_F32, ROWS, COLS, NORMAL);
		struct scaling *scales = scales_of(&specs[q], &sample.x);
		struct factor factor;
		uint8_t codes[ROWS * COLS];
		double losses[2];

		for (size_t i = 0; i < 2; i++) {
			struct rounding rounding = { .factor = &factor,
						     .spec = &specs[q],
						     .scales = scales,
						     .ops = way_at(0).ops,
						     .n_threads = 1 };
			struct err err = { 0 };

			assert_int_equal(factor_make(&factor, &hessian, i ? 1 : 0, &err), 0);
			assert_int_equal(round_matrix(&rounding, &sample.x, codes, &err), 0);
			losses[i] = loss(&rounding, &sample.x, codes, h);
			factor_release(&factor);
		}
		assert_true(losses[0] < 0.1 * losses[1]);
		free(scales);
		free(h);
		guarded_free(sample.data, sample.size);
	}
}

/* The error of column 0 times U[0, 1], 9.5 / (1 + 0.001 * 50.5), takes column 1 out of range. */
static void corrections_saturate(void **state)
{
	static const float h[] = { 100, 9.5f, 0, 1 };
	static const struct {
		enum fp8_format format;
		float w[2];
		uint8_t codes[2];
	} cases[] = {
		{ FP8_E4M3, { 33.99f, 448 }, { 0x60, 0x7E } }, /* 32, then 466 */
		{ FP8_E4M3, { -33.99f, -448 }, { 0xE0, 0xFE } },
		{ FP8_E5M2, { 7679, 57344 }, { 0x6F, 0x7B } }, /* 7168, then 61965 */
		{ FP8_E5M2, { -7679, -57344 }, { 0xEF, 0xFB } },
	};
	const struct scaling one = scaling_given(1);

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct hessian hessian = { h, 2, way_at(0).ops, 1, NULL };
		const struct qspec spec = { .tile = { WHOLE, WHOLE }, .format = cases[i].format };
		const struct matrix w = { cases[i].w, DT_F32, 1, 2, 2 };
		struct factor factor;
		struct rounding rounding = { .factor = &factor, .spec = &spec, .scales = &one };
		struct err err = { 0 };

		assert_int_equal(factor_make(&factor, &hessian, 0, &err), 0);
		assert_codes(&rounding, &w, cases[i].codes);
		factor_release(&factor);
	}
}

static void a_signal_ends_it(void **state)
{
	atomic_int stop = 2;
	struct sample sample = sample_new(DT_F32, 40, 40, NORMAL);
	struct scaling *scales = scales_of(&specs[0], &sample.x);
	struct factor factor = factor_of(40, 0.3f);
	const struct rounding rounding = { &factor, &specs[0], scales, way_at(0).ops, 2, &stop };
	uint8_t codes[40 * 40];
	struct err err = { 0 };

	(void)state;
	assert_int_equal(round_matrix(&rounding, &sample.x, codes, &err), -1);
	assert_int_equal(err.kind, ERR_INTERRUPTED);
	factor_release(&factor);
	free(scales);
	guarded_free(sample.data, sample.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_those_of_plain_loops),
		cmocka_unit_test(without_correlation_the_codes_are_those_of_the_cast),
		cmocka_unit_test(every_value_is_cast_as_num_casts_it),
		cmocka_unit_test(compensation_makes_the_loss_smaller),
		cmocka_unit_test(corrections_saturate),
		cmocka_unit_test(a_signal_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
