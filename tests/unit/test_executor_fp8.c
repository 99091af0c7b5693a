/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: round_fp8(), bit for bit against the arithmetic of src/num, tile by tile, on
 * the executor of every backend.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/scale.h"
#include "support/executor_sides.h"

/* Scales of a tile that is the whole matrix, as a checkpoint may have them: no reciprocals, and of
 * what is no scale. */
static const struct scaling given[] = {
	{ 0.37f, false, 2.7f, 0 },     { INFINITY, false, 0, 0 }, { 0.37f, false, 2.7f, 0 },
	{ 0.37f, false, INFINITY, 0 }, { 0, false, 2.7f, 0 },
};

/* Where the values go. */
enum into { AS_F32, IN_PLACE, AS_BF16, N_INTO };

static const struct qspec specs[] = {
	{ .format = FP8_E4M3, .tile = { 1, 128 }, .pow2 = true },
	{ .format = FP8_E4M3, .tile = { 1, 128 } },
	{ .format = FP8_E5M2, .tile = { 1, 128 }, .arith = ARITH_DEEPSEEK },
	{ .format = FP8_E4M3, .tile = { 1, 128 }, .arith = ARITH_DEEPGEMM, .amax_epsilon = 0.25f },
	{ .format = FP8_E4M3, .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
	{ .format = FP8_E5M2, .tile = { 1, 32 }, .scale_type = SCALE_E8M0, .mx_rule = MX_FLOOR },
	{ .format = FP8_E4M3,
	  .tile = { 1, 32 },
	  .scale_type = SCALE_E8M0,
	  .mx_rule = MX_EVEN,
	  .margin = 1 },
	{ .format = FP8_E4M3, .tile = { 1, 32 }, .arith = ARITH_DEEPSEEK },
	{ .format = FP8_E4M3, .tile = { 1, WHOLE } },
	{ .format = FP8_E5M2, .tile = { 1, WHOLE }, .pow2 = true, .margin = -1 },
	{ .format = FP8_E4M3, .tile = { WHOLE, WHOLE } },
	{ .format = FP8_E4M3, .tile = { WHOLE, WHOLE }, .arith = ARITH_DEEPSEEK },
	{ .format = FP8_E5M2, .tile = { WHOLE, WHOLE }, .pow2 = true },
	{ .format = FP8_E4M3, .tile = { WHOLE, WHOLE }, .arith = ARITH_GIVEN },
	{ .format = FP8_E5M2, .tile = { WHOLE, WHOLE }, .arith = ARITH_GIVEN },
	{ .format = FP8_E4M3, .tile = { 1, 64 } },
	{ .format = FP8_E4M3, .tile = { 1, 50 } },
	{ .format = FP8_E4M3, .tile = { 1, 1000 }, .pow2 = true },
	{ .format = FP8_E4M3, .tile = { 3, 20 } },
	{ .format = FP8_E4M3, .tile = { 128, 128 }, .pow2 = true },
	{ .format = FP8_E4M3, .tile = { WHOLE, 32 } },
};

static const struct cast_counts before = { 5, 7 };

/* A matrix, and what becomes of it. */
struct sample {
	const struct qspec *spec;
	struct scaling given; /* of ARITH_GIVEN */
	size_t n_rows, n_cols;
	enum into into;
	struct values x;  /* wanted: as the values in fp32, if they are put in place */
	float *values;	  /* in fp32 */
	uint16_t *halves; /* as bf16 */
	struct cast_counts counts;
};

/* Of all binades that an input may have, in a tile or from tile to tile. */
static float wide_value(size_t i)
{
	float v = noise_next();

	return ldexpf(v, (int)(i * 7 % 23) - 17 + (int)(i / 128 * 5 % 31) - 20);
}

static struct sample sample_new(const struct qspec *spec, size_t n_rows, size_t n_cols, size_t i)
{
	size_t n = n_rows * n_cols;
	struct sample s = { .spec = spec,
			    .given = given[i % N_OF(given)],
			    .n_rows = n_rows,
			    .n_cols = n_cols,
			    .into = (enum into)(i % N_INTO),
			    .x = values_new(n, i / 4 % 2),
			    .values = host_memory_new(n * sizeof(float)),
			    .halves = host_memory_new(n * sizeof(uint16_t)),
			    .counts = before };

	for (size_t k = 0; k < n; k++)
		values_set(&s.x, k, wide_value(k));
	specials_put(&s.x, i % 5 == 1 ? 41 : i % 5 == 2 ? 700 : 0);
	if (i % 5 == 3) /* inf has no scale: large values are left as they are, and saturate */
		specials_put(&s.x, 13);
	for (size_t k = 0; n_rows > 1 && k < n_cols; k++) /* a row of zeros */
		values_set(&s.x, n_cols + k, k % 3 ? 0.0f : -0.0f);
	for (size_t k = 0; n_rows > 2 && k < n_cols; k++) /* a row whose scale is the largest */
		values_set(&s.x, 2 * n_cols + k, ldexpf(noise_next(), -126));
	if (n && i % 4 == 2) /* the last element outweighs all */
		values_set(&s.x, n - 1, ldexpf(1.5f, 17));
	return s;
}

static void sample_free(struct sample *s)
{
	values_free(&s->x);
	free(s->values);
	free(s->halves);
}

static size_t end_of(size_t begin, size_t tile, size_t n)
{
	return tile == WHOLE || begin + tile > n ? n : begin + tile;
}

/* Rounds element i. */
static void expect_one(struct sample *s, size_t i, struct scaling scaling)
{
	float x = s->x.given[i], scaled = scaling_apply(scaling, x);
	uint8_t code = fp8_from_f32(s->spec->format, scaled);
	float value = fp8_to_f32(s->spec->format, code) * scaling.scale_inv;

	s->values[i] = isnan(value) ? f32_from_bits(F32_NAN) : value;
	s->halves[i] = bf16_from_f32(value);
	s->counts.n_saturated += isinf(x) || (!isnan(x) && fp8_saturates(s->spec->format, scaled));
	s->counts.n_zeros += (code & 0x7F) == 0 && x != 0;
	if (s->into == IN_PLACE)
		s->x.wanted[i] = s->values[i];
}

static void expect_tile(struct sample *s, size_t row, size_t col)
{
	size_t row_end = end_of(row, s->spec->tile.rows, s->n_rows);
	size_t col_end = end_of(col, s->spec->tile.cols, s->n_cols);
	struct scaling scaling = s->given;
	float amax = 0;

	for (size_t r = row; r < row_end; r++)
		for (size_t c = col; c < col_end; c++)
			amax = fmaxf(amax, fabsf(s->x.given[r * s->n_cols + c]));
	if (s->spec->arith != ARITH_GIVEN)
		scaling = scaling_from_amax(s->spec, amax, scale_limit(DT_F32, s->spec->tile));
	for (size_t r = row; r < row_end; r++)
		for (size_t c = col; c < col_end; c++)
			expect_one(s, r * s->n_cols + c, scaling);
}

static void expect(struct sample *s)
{
	size_t rows = s->spec->tile.rows == WHOLE ? s->n_rows : s->spec->tile.rows;
	size_t cols = s->spec->tile.cols == WHOLE ? s->n_cols : s->spec->tile.cols;

	for (size_t row = 0; row < s->n_rows; row += rows)
		for (size_t col = 0; col < s->n_cols; col += cols)
			expect_tile(s, row, col);
}

/* The results have the bits of the wanted ones, NaN's too. */
static void same_bits(const struct side *side, const struct sample *s, const void *got, size_t size)
{
	const void *wanted = size == 2 ? (void *)s->halves : (void *)s->values;
	size_t n = s->n_rows * s->n_cols, i = 0;

	while (i < n &&
	       !memcmp((const char *)got + i * size, (const char *)wanted + i * size, size))
		i++;
	if (i < n)
		fail_msg("%s: spec %zu, (%zu, %zu), %zu bytes: element %zu differs, of %a",
			 side->ops->name, (size_t)(s->spec - specs), s->n_rows, s->n_cols, size, i,
			 (double)s->x.given[i]);
}

static void run_on(const struct side *side, const struct sample *s, bool counted)
{
	size_t n = s->n_rows * s->n_cols, size = s->into == AS_BF16 ? 2 : 4;
	float *x = values_send(side, &s->x);
	void *y = side_memory_new(side, n * size), *got = host_memory_new(n * size);
	void *scratch = side_memory_new(side, sizeof(struct value_stats));
	void *counts = side_put(side, &before, sizeof before);
	const struct round_fp8_args args = { .x = x,
					     .n_rows = s->n_rows,
					     .n_cols = s->n_cols,
					     .spec = *s->spec,
					     .scale = s->given.factor,
					     .scale_inv = s->given.scale_inv,
					     .y = s->into == IN_PLACE ? x : y,
					     .dtype = size == 2 ? DT_BF16 : DT_F32,
					     .counts = counted ? counts : NULL,
					     .scratch = scratch };
	struct cast_counts found;

	side->ops->round_fp8(side->stream, &args);
	side->ops->fetch(side->stream, got, args.y, n * size);
	side_wait(side);
	same_bits(side, s, got, size);
	values_check(side, &s->x, x, "what was rounded");
	side_take(side, counts, &found, sizeof found);
	assert_int_equal(found.n_saturated, counted ? s->counts.n_saturated : before.n_saturated);
	assert_int_equal(found.n_zeros, counted ? s->counts.n_zeros : before.n_zeros);
	side->ops->memory_free(side->executor, y);
	side->ops->memory_free(side->executor, scratch);
	free(got);
}

static void values_at(const struct qspec *spec, size_t n_rows, size_t n_cols, size_t i)
{
	struct sample s = sample_new(spec, n_rows, n_cols, i);

	expect(&s);
	EACH_SIDE(side)
	{
		run_on(side, &s, i % 3 != 0);
	}
	sample_free(&s);
}

/* Columns: tails of tiles of 32, 50, 64 and 128, and odd ones. */
static void values_equal_those_of_their_codes(void **state)
{
	static const size_t n_cols[] = { 1, 31, 32, 36, 50, 100, 128, 132, 200, 256, 389, 1024 };

	(void)state;
	for (size_t i = 0; i < N_OF(specs) * N_OF(n_cols) * 5; i++)
		values_at(&specs[i % N_OF(specs)], 1 + i / 7 % 6,
			  n_cols[i / N_OF(specs) % N_OF(n_cols)], i / N_OF(specs));
}

/* More rows than a band of the CPU's; more columns than the threads of a GPU's block have at once,
 * in one turn and in two. */
static void long_rows_and_many_of_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(specs); i++) {
		values_at(&specs[i], 140, sides_small ? 130 : 1028, i);
		values_at(&specs[i], 3, 4999, i + 1);
		for (size_t k = 0; k < 4 && specs[i].tile.cols == WHOLE; k++) {
			values_at(&specs[i], 3, 5000, i + k);
			values_at(&specs[i], 2, 12000 + 96 * k, i + k + 1);
		}
	}
}

/* More elements than all blocks that a GPU starts have at once, which is 1056 * 4096. */
static void a_large_tensor(void **state)
{
	static const struct qspec spec = { .format = FP8_E4M3, .tile = { WHOLE, WHOLE } };

	(void)state;
	values_at(&spec, 1057, 4100, 2);
}

static void no_rows_are_left_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(specs); i++) {
		values_at(&specs[i], 0, 100, 2);
		values_at(&specs[i], 100, 0, 2);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_equal_those_of_their_codes),
		cmocka_unit_test(long_rows_and_many_of_them),
		cmocka_unit_test(a_large_tensor),
		cmocka_unit_test(no_rows_are_left_alone),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
