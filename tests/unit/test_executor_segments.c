/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: rows of several sequences between the products of experts and their casts to
 * FP8, bit for bit against plain loops; their products, on each executor that multiplies them
 * together.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/activation.h"
#include "num/float16.h"
#include "num/scale.h"
#include "support/executor_sides.h"

#define ROWS	 9
#define SEGMENTS 4
#define SLOTS	 3

static const uint32_t segments[ROWS] = { 0, 0, 0, 1, 3, 3, 3, 3, 3 };

/* The stats of all segments and slots, and what they shall become. */
struct tally {
	struct value_stats wanted[SEGMENTS * SLOTS];
	struct value_stats *there;
	struct value_stats **table;
	uint32_t *segments;
};

static struct row_stats tally_send(const struct side *s, struct tally *tally)
{
	struct value_stats *stats[SEGMENTS];

	memset(tally->wanted, 0, sizeof tally->wanted);
	tally->there = side_put(s, tally->wanted, sizeof tally->wanted);
	for (size_t i = 0; i < SEGMENTS; i++)
		stats[i] = tally->there + i * SLOTS;
	tally->table = side_put(s, stats, sizeof stats);
	tally->segments = side_put(s, segments, sizeof segments);
	return (struct row_stats){ tally->table, tally->segments };
}

static void tally_raise(struct tally *tally, size_t row, size_t slot, const float *x, size_t n)
{
	if (slot != NO_SLOT)
		stats_raise(&tally->wanted[segments[row] * SLOTS + slot], x, n);
}

static void tally_check(const struct side *s, struct tally *tally)
{
	struct value_stats got[SEGMENTS * SLOTS];

	side_take(s, tally->there, got, sizeof got);
	for (size_t i = 0; i < SEGMENTS * SLOTS; i++) {
		assert_true(floats_same(got[i].amax, tally->wanted[i].amax));
		assert_int_equal(got[i].n_nonfinite, tally->wanted[i].n_nonfinite);
	}
	s->ops->memory_free(s->executor, tally->table);
	s->ops->memory_free(s->executor, tally->segments);
}

static float round_if(bool is, float v)
{
	if (!is)
		return v;
	return f32_is_nan(v) ? f32_from_bits(F32_NAN) : bf16_to_f32(bf16_from_f32(v));
}

static void codes_check(const struct side *s, uint16_t *there, const float *wanted, size_t n)
{
	uint16_t *codes = host_memory_new(n * sizeof *codes);

	side_take(s, there, codes, n * sizeof *codes);
	for (size_t i = 0; i < n; i++)
		assert_true(floats_same(bf16_to_f32(codes[i]), wanted[i]));
	free(codes);
}

/* How rows are taken. */
struct taking {
	bool rows, factors, round, codes, y;
	size_t slot;
};

static const struct taking takings[] = {
	{ true, false, true, true, false, 0 },	  { true, true, true, true, true, 2 },
	{ true, true, false, false, true, 0 },	  { false, false, true, true, true, 1 },
	{ false, false, false, false, false, 2 }, { true, false, true, false, true, NO_SLOT },
};

static void taking_check(const struct side *s, const struct taking *how, const struct values *x,
			 size_t n)
{
	static const uint32_t rows[ROWS] = { 4, 0, 7, 8, 2, 2, 1, 3, 5 };
	static const float factors[ROWS] = { 0.3f, 1, -0.1f, 0.7f, 1e-3f, 3, -7, 0, 0.5f };
	struct values y = values_new(ROWS * n, x->shift);
	float *x_there = values_send(s, x), *y_there = values_send(s, &y);
	uint32_t *rows_there = side_put(s, rows, sizeof rows);
	float *factors_there = side_put(s, factors, sizeof factors);
	float *made = host_memory_new(ROWS * n * sizeof *made);
	struct tally tally;
	const struct take_rows_args args = {
		.x = x_there,
		.rows = how->rows ? rows_there : NULL,
		.factors = how->factors ? factors_there : NULL,
		.n_rows = ROWS,
		.n_cols = n,
		.round = how->round,
		.stats = tally_send(s, &tally),
		.slot = how->slot,
		.y = how->y ? y_there : NULL,
		.codes = how->codes ? side_memory_new(s, ROWS * n * sizeof(uint16_t)) : NULL
	};

	for (size_t r = 0; r < ROWS; r++) {
		for (size_t i = 0; i < n; i++) {
			float v = x->given[(how->rows ? rows[r] : r) * n + i];

			made[r * n + i] = round_if(how->round, how->factors ? factors[r] * v : v);
			if (how->y)
				y.wanted[r * n + i] = made[r * n + i];
		}
		tally_raise(&tally, r, how->slot, made + r * n, n);
	}
	s->ops->take_rows(s->stream, &args);
	values_check(s, x, x_there, "the rows that were taken");
	values_check(s, &y, y_there, "take_rows");
	if (how->codes)
		codes_check(s, args.codes, made, ROWS * n);
	tally_check(s, &tally);
	s->ops->memory_free(s->executor, rows_there);
	s->ops->memory_free(s->executor, factors_there);
	values_free(&y);
	free(made);
}

static void rows_are_taken_with_stats_of_segments(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes); i++) {
		struct values x = values_new(ROWS * edge_sizes[i], i % 2);

		specials_put(&x, i % 3 ? 13 : 0);
		for (size_t k = 0; k < N_OF(takings); k++)
			EACH_SIDE(s)
		taking_check(s, &takings[k], &x, edge_sizes[i]);
		values_free(&x);
	}
}

static void gating_check(const struct side *s, const struct values *x, size_t n, unsigned how)
{
	bool codes = how & 1, keeps = !codes || how & 2, same = how & 4, silent = how == 5;
	struct values y = values_new(ROWS * (n + 4), x->shift);
	float *x_there = values_send(s, x), *y_there = values_send(s, &y);
	float *made = host_memory_new(ROWS * n * sizeof *made);
	struct tally tally;
	const struct gate_args args = {
		.activation = how & 2 ? ACT_GELU : ACT_SILU,
		.gate = { x_there, 2 * n },
		.up = { x_there + n, 2 * n },
		.n_rows = ROWS,
		.n_cols = n,
		.round = codes,
		.rows = tally_send(s, &tally),
		.gate_slot = silent ? NO_SLOT : 1,
		.up_slot = silent ? NO_SLOT
			   : same ? 1
				  : 0,
		.y_slot = 2,
		.y = { keeps ? y_there : NULL, n + 4 },
		.rounded.codes = codes ? side_memory_new(s, ROWS * n * sizeof(uint16_t)) : NULL,
	};

	for (size_t r = 0; r < ROWS; r++) {
		const float *gate = x->given + r * 2 * n, *up = gate + n;

		for (size_t i = 0; i < n; i++) {
			made[r * n + i] =
				round_if(codes, activation_apply(args.activation, gate[i]) * up[i]);
			if (keeps)
				y.wanted[r * (n + 4) + i] = made[r * n + i];
		}
		tally_raise(&tally, r, args.gate_slot, gate, n);
		tally_raise(&tally, r, args.up_slot, up, n);
		tally_raise(&tally, r, 2, made + r * n, n);
	}
	s->ops->gate(s->stream, &args);
	values_check(s, x, x_there, "gate and up");
	values_check(s, &y, y_there, "gate of segments");
	if (codes)
		codes_check(s, args.rounded.codes, made, ROWS * n);
	tally_check(s, &tally);
	values_free(&y);
	free(made);
}

static void rows_are_gated_with_stats_of_segments(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes); i++) {
		struct values x = values_new(ROWS * 2 * edge_sizes[i], i % 2);

		for (unsigned how = 0; how < 8; how++)
			EACH_SIDE(s)
		gating_check(s, &x, edge_sizes[i], how);
		values_free(&x);
	}
}

/* Of 4 tokens with 2 rows each, those in [2, 7); one token has none of them, one has one. */
static void rows_are_combined_in_order(void **state)
{
	static const uint32_t places[] = { 0, 4, 7, 1, 3, 6, 2, 5 };
	static const float weights[] = { 0.3f, 1, -0.1f, 0.7f, 1e-3f, 3, 0.25f, -0.6f };
	static const uint32_t rows[] = { 3, 2, 0, 3, 2 }; /* of places 2 to 6 */
	static const float factors[] = { 0.25f, 1e-3f, 1, -0.6f, 3 };
	enum { FIRST = 2, N = 5 };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 2; i++) {
		size_t n = edge_sizes[i / 2];
		struct values y = values_new(4 * n, i / 2 % 2), x = values_new(N * n, 0);
		bool plain = i % 2;

		for (size_t k = 0; k < 4 * n * 2; k++) {
			size_t choice = k / n, row = places[choice] - FIRST;

			if (row < N)
				y.wanted[choice / 2 * n + k % n] +=
					(plain ? 1 : weights[choice]) * x.given[row * n + k % n];
		}
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);
			uint32_t *places_there = side_put(s, places, sizeof places);
			float *weights_there = side_put(s, weights, sizeof weights);
			uint32_t *rows_there = side_put(s, rows, sizeof rows);
			float *factors_there = side_put(s, factors, sizeof factors);
			const struct combine_args args = { y_there,
							   x_there,
							   rows_there,
							   plain ? NULL : factors_there,
							   places_there,
							   plain ? NULL : weights_there,
							   FIRST,
							   N,
							   4,
							   2,
							   n };

			s->ops->combine(s->stream, &args);
			values_check(s, &x, x_there, "what was combined");
			values_check(s, &y, y_there, "combine");
			s->ops->memory_free(s->executor, rows_there);
			s->ops->memory_free(s->executor, factors_there);
			s->ops->memory_free(s->executor, places_there);
			s->ops->memory_free(s->executor, weights_there);
		}
		values_free(&x);
		values_free(&y);
	}
}

/* --- casts --- */

static const struct qspec whole_specs[] = {
	{ .format = FP8_E4M3, .tile = { WHOLE, WHOLE } },
	{ .format = FP8_E5M2, .tile = { WHOLE, WHOLE }, .pow2 = true },
	{ .format = FP8_E4M3, .tile = { WHOLE, WHOLE }, .arith = ARITH_DEEPSEEK },
};

/* What becomes of x: fp32 values by the scale of each row's segment. */
static void cast_plainly(const struct values *x, const struct qspec *spec, size_t n, float *y)
{
	float amaxes[SEGMENTS] = { 0 };

	for (size_t i = 0; i < ROWS * n; i++)
		amaxes[segments[i / n]] = fmaxf(amaxes[segments[i / n]], fabsf(x->given[i]));
	for (size_t i = 0; i < ROWS * n; i++) {
		struct scaling scaling = scaling_from_amax(spec, amaxes[segments[i / n]], F32_MAX);
		uint8_t code = fp8_from_f32(spec->format, scaling_apply(scaling, x->given[i]));

		y[i] = fp8_to_f32(spec->format, code) * scaling.scale_inv;
	}
}

/* Where the values go: as fp32, as bf16, or in the place of x. */
enum into { AS_F32, AS_BF16, IN_PLACE, N_INTO };

static void casting_check(const struct side *s, struct values *x, size_t n, size_t how)
{
	enum into into = how % N_INTO;
	const struct qspec *spec = &whole_specs[how / N_INTO];
	struct values y = values_new(ROWS * n, x->shift);
	float *x_there = values_send(s, x), *y_there = values_send(s, &y);
	uint16_t *codes_there = side_memory_new(s, ROWS * n * sizeof *codes_there);
	const struct value_stats junk[SEGMENTS] = { { .amax = 9 } };
	const struct round_fp8_args args = {
		.x = x_there,
		.n_rows = ROWS,
		.n_cols = n,
		.spec = *spec,
		.y = into == AS_F32    ? (void *)y_there
		     : into == AS_BF16 ? (void *)codes_there
				       : x_there,
		.dtype = into == AS_BF16 ? DT_BF16 : DT_F32,
		.scratch = side_put(s, junk, sizeof junk),
		.segments = side_put(s, segments, sizeof segments),
		.n_segments = SEGMENTS,
	};
	float *made = host_memory_new(ROWS * n * sizeof *made);

	cast_plainly(x, spec, n, made);
	memcpy(x->wanted, into == IN_PLACE ? made : x->given, ROWS * n * sizeof *made);
	if (into == AS_F32)
		memcpy(y.wanted, made, ROWS * n * sizeof *made);
	s->ops->round_fp8(s->stream, &args);
	values_check(s, x, x_there, "what was cast");
	values_check(s, &y, y_there, "round_fp8 of segments");
	for (size_t i = 0; i < ROWS * n; i++)
		made[i] = round_if(true, made[i]);
	if (into == AS_BF16)
		codes_check(s, codes_there, made, ROWS * n);
	else
		s->ops->memory_free(s->executor, codes_there);
	s->ops->memory_free(s->executor, (void *)args.segments);
	s->ops->memory_free(s->executor, args.scratch);
	values_free(&y);
	free(made);
}

/* The rows of a segment have one scale, that of their amax. */
static void rows_are_cast_by_segment(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes); i++) {
		struct values x = values_new(ROWS * edge_sizes[i], i % 2);

		specials_put(&x, i % 3 ? 0 : 13);
		for (size_t k = 0; k < ROWS * edge_sizes[i]; k++) /* each row has another size */
			values_set(&x, k, ldexpf(x.given[k], (int)(k / edge_sizes[i] * 5) - 20));
		for (size_t how = 0; how < N_INTO * N_OF(whole_specs); how++)
			EACH_SIDE(s)
		casting_check(s, &x, edge_sizes[i], how);
		values_free(&x);
	}
}

/* --- products --- */

#define MOST_ROWS 300
#define PRODUCT_N 24
#define PRODUCT_K 40

static void *product_rows(const struct side *s, const struct executor_weight *weight,
			  const uint16_t *x, size_t first, size_t m)
{
	float *y = side_memory_new(s, m * PRODUCT_N * sizeof *y);

	s->ops->multiply(s->stream, &(const struct multiply_args){ weight, x + first * PRODUCT_K, m,
								   y, NULL, true });
	return y;
}

/* A row of a product has the same bits alone, among few and among many. */
static void rows_of_products_do_not_depend_on_others(void **state)
{
	static uint16_t x[MOST_ROWS * PRODUCT_K], w[PRODUCT_N * PRODUCT_K];
	static float all[MOST_ROWS * PRODUCT_N], some[MOST_ROWS * PRODUCT_N];

	(void)state;
	for (size_t i = 0; i < N_OF(x); i++)
		x[i] = bf16_from_f32(noise_next());
	for (size_t i = 0; i < N_OF(w); i++)
		w[i] = bf16_from_f32(noise_next());
	EACH_SIDE(s)
	{
		struct executor_weight weight = { .executor = s->executor,
						  .dtype = DT_BF16,
						  .n = PRODUCT_N,
						  .k = PRODUCT_K,
						  .panel_rows = s->ops->portion(PORTION_WEIGHT,
										PRODUCT_N) };
		struct err err = { 0 };
		uint16_t *x_there;

		if (!s->ops->load.grouped)
			continue;
		x_there = side_put(s, x, sizeof x);
		assert_int_equal(s->ops->weight_init(&weight, &err), 0);
		assert_int_equal(s->ops->weight_set(&weight, 0, w, &err), 0);
		side_take(s, product_rows(s, &weight, x_there, 0, MOST_ROWS), all, sizeof all);
		for (size_t m = 1; m < MOST_ROWS; m = m * 3 + 1) {
			size_t first = MOST_ROWS - m, size = m * PRODUCT_N * sizeof *some;

			side_take(s, product_rows(s, &weight, x_there, first, m), some, size);
			assert_memory_equal(some, all + first * PRODUCT_N, size);
		}
		s->ops->weight_release(&weight);
		s->ops->memory_free(s->executor, x_there);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_taken_with_stats_of_segments),
		cmocka_unit_test(rows_are_gated_with_stats_of_segments),
		cmocka_unit_test(rows_are_combined_in_order),
		cmocka_unit_test(rows_are_cast_by_segment),
		cmocka_unit_test(rows_of_products_do_not_depend_on_others),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
