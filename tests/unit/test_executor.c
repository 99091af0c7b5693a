/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: opening, memory, looking at values, and what is done to each, bit for bit
 * against plain loops over num/, on the executor of every backend.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/exp.h"
#include "num/float16.h"
#include "support/executor_sides.h"

/* --- opening --- */

static void executors_name_their_library(void **state)
{
	char text[100];
	struct err err;

	(void)state;
	EACH_SIDE(s)
	{
		assert_ptr_equal(s->executor->ops, s->ops);
		assert_ptr_equal(s->stream->executor, s->executor);
		memset(text, '!', sizeof text);
		assert_int_equal(s->ops->library(text, sizeof text, &err), 0);
		assert_true(text[0] && memchr(text, 0, sizeof text));
		print_message("%s: %s\n", s->ops->name, text);
	}
}

/* --- memory --- */

static void bytes_go_there_and_back(void **state)
{
	char text[] = "0123456789", back[sizeof text];

	(void)state;
	EACH_SIDE(s)
	{
		char *there = side_put(s, text, sizeof text);

		s->ops->zero(s->stream, there + 2, 3);
		s->ops->put(s->stream, there + 8, "ab", 2);
		s->ops->fetch(s->stream, back, there + 7, 3);
		side_wait(s);
		assert_memory_equal(back, "7ab", 3);
		side_take(s, there, back, sizeof back);
		assert_memory_equal(back,
				    "01\0\0\0"
				    "567ab",
				    sizeof text);
		s->ops->memory_free(s->executor, side_memory_new(s, 0));
		s->ops->memory_free(s->executor, NULL);
		side_wait(s);
	}
}

/* --- looking at values --- */

/* Stats of earlier values count too. */
static void amax_at(const struct values *x, bool round, struct value_stats before)
{
	struct value_stats wanted = before;

	for (size_t i = 0; round && i < x->n; i++)
		x->wanted[i] = bf16_to_f32(bf16_from_f32(x->given[i]));
	stats_raise(&wanted, x->wanted, x->n);
	EACH_SIDE(s)
	{
		float *there = values_send(s, x);
		struct value_stats *stats = side_put(s, &before, sizeof before);

		if (round)
			s->ops->round(s->stream,
				      &(const struct round_args){ .x = there,
								  .n = x->n,
								  .y = there,
								  .rounded = { stats, NULL } });
		else
			s->ops->measure(s->stream,
					&(const struct measure_args){ there, x->n, stats, NULL });
		stats_back(s, &wanted, stats);
		values_check(s, x, there, round ? "round" : "amax");
	}
}

static void histogram_at(const struct values *x)
{
	static uint64_t wanted[4096], before[4096] = { [6] = 3, [2040] = 2 }, got[4096];

	memcpy(wanted, before, sizeof wanted);
	for (size_t i = 0; i < x->n; i++)
		wanted[2 * (f32_magnitude(x->given[i]) >> 20)]++;
	EACH_SIDE(s)
	{
		float *there = values_send(s, x);
		uint64_t *counts = side_put(s, before, sizeof before);

		s->ops->measure(s->stream,
				&(const struct measure_args){ there, x->n, NULL, counts });
		side_take(s, counts, got, sizeof got);
		assert_memory_equal(got, wanted, sizeof wanted);
		values_check(s, x, there, "histogram");
	}
}

static void look_at(size_t n, size_t shift, size_t every)
{
	struct values x = values_new(n, shift);

	specials_put(&x, every);
	amax_at(&x, false, (struct value_stats){ .n_nonfinite = 5, .amax = 3.9f });
	histogram_at(&x);
	amax_at(&x, true, (struct value_stats){ 0 });
	values_free(&x);
}

static void stats_are_those_of_every_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes); i++)
		for (size_t every = 0; every < 4; every++)
			look_at(edge_sizes[i], i % 2, every);
	look_at(4095, 0, 0);
	look_at(4096, 1, 1);
	look_at(9999, 0, 1009);
	if (!sides_small)
		look_at(1024 * 4096 + 5, 0, 100003); /* more than a GPU's blocks take at once */
}

/* --- element by element --- */

static void rounding_equals_num(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 4; i++) {
		size_t n = edge_sizes[i / 4], y_shift = i / 2 % 2,
		       y_size = (n + y_shift) * sizeof(uint16_t);
		struct values x = values_new(n, i % 2);
		uint16_t y[1001];

		specials_put(&x, 3);
		EACH_SIDE(s)
		{
			float *there = values_send(s, &x);
			uint16_t *y_there = side_memory_new(s, y_size);

			s->ops->zero(s->stream, y_there, y_size);
			s->ops->round(s->stream,
				      &(const struct round_args){
					      .x = there,
					      .n = n,
					      .rounded = { .codes = y_there + y_shift } });
			side_take(s, y_there, y, y_size);
			assert_int_equal(y_shift ? y[0] : 0, 0);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(y[y_shift + k], bf16_from_f32(x.wanted[k]));
			values_check(s, &x, there, "round_bf16");
		}
		values_free(&x);
	}
}

/* One after the other: a stream keeps their order. */
static void additions_keep_their_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 4; i++) {
		size_t n = edge_sizes[i / 4], n_rows = 1 + i % 5;
		struct values x = values_new(n * n_rows, i % 2),
			      y = values_new(n * n_rows, i / 2 % 2);

		for (size_t k = 0; k < x.n; k++)
			x.wanted[k] += y.given[k];
		for (size_t k = 0; k < x.n; k++)
			x.wanted[k] += y.given[k % n];
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);

			s->ops->add(s->stream,
				    &(const struct add_args){
					    .x = x_there, .y = y_there, .n_rows = 1, .n = x.n });
			s->ops->add(s->stream,
				    &(const struct add_args){ x_there, y_there, n_rows, n, NULL });
			values_check(s, &x, x_there, "add");
			values_check(s, &y, y_there, "what was added");
		}
		values_free(&x);
		values_free(&y);
	}
}

enum { GATE, UP, Y };

/* how: the activation and the limit; into: which of the three is written. */
static void gate_at(const struct gate_args *how, size_t n_rows, size_t n, size_t shift, size_t more,
		    int into)
{
	const float limit = how->limit;
	size_t strides[] = { n + more, n + 4, n + 2 * more };
	struct values v[] = { values_new(n_rows * strides[GATE], shift),
			      values_new(n_rows * strides[UP], 0),
			      values_new(n_rows * strides[Y], 0) };

	for (size_t i = 0; i < v[GATE].n; i += 5)
		values_set(&v[GATE], i, 30 * v[GATE].given[i]);
	specials_put(&v[GATE], 7);
	for (size_t i = 0; i < n_rows * n; i++) {
		size_t row = i / n, col = i % n;
		float gate = v[GATE].given[row * strides[GATE] + col],
		      up = v[UP].given[row * strides[UP] + col];

		gate = activation_apply(how->activation, gate);
		gate = limit > 0 && gate > limit ? limit : gate;
		up = limit > 0 && fabsf(up) > limit ? copysignf(limit, up) : up;
		v[into].wanted[row * strides[into] + col] = gate * up;
	}
	EACH_SIDE(s)
	{
		float *at[] = { values_send(s, &v[GATE]), values_send(s, &v[UP]),
				values_send(s, &v[Y]) };

		s->ops->gate(s->stream,
			     &(const struct gate_args){ .activation = how->activation,
							.limit = limit,
							.gate = { at[GATE], strides[GATE] },
							.up = { at[UP], strides[UP] },
							.n_rows = n_rows,
							.n_cols = n,
							.y = { at[into], strides[into] } });
		for (int i = GATE; i <= Y; i++)
			values_check(s, &v[i], at[i], "gate");
	}
	for (int i = GATE; i <= Y; i++)
		values_free(&v[i]);
}

static void gates_equal_the_activations_of_num(void **state)
{
	static const struct gate_args hows[] = {
		{ .activation = ACT_SILU },    { .activation = ACT_GELU },
		{ .activation = ACT_SIGMOID }, { .activation = ACT_SOFTPLUS },
		{ .activation = ACT_NONE },    { .activation = ACT_SILU, .limit = 0.375f }
	};

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * N_OF(hows); i++)
		for (size_t more = 0; more <= 4; more += 2)
			for (int into = GATE; into <= Y; into++)
				gate_at(&hows[i % N_OF(hows)], 2 + i % 2,
					edge_sizes[i / N_OF(hows)], i % 2, more, into);
}

static void activations_equal_num(void **state)
{
	static const enum activation all[] = { ACT_SILU, ACT_GELU, ACT_SRELU, ACT_SOFTPLUS,
					       ACT_NONE };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * N_OF(all) * 2; i++) {
		size_t n = edge_sizes[i / 2 / N_OF(all)];
		enum activation activation = all[i / 2 % N_OF(all)];
		struct values x = values_new(n, i % 2), y = values_new(n, 0);

		specials_put(&x, 6);
		for (size_t k = 0; k < n; k++)
			y.wanted[k] = activation_apply(activation, x.given[k]);
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);

			s->ops->gate(s->stream, &(const struct gate_args){ .activation = activation,
									   .gate.data = x_there,
									   .n_rows = 1,
									   .n_cols = n,
									   .y.data = y_there });
			values_check(s, &x, x_there, "what was activated");
			s->ops->gate(s->stream, &(const struct gate_args){ .activation = activation,
									   .gate.data = y_there,
									   .n_rows = 1,
									   .n_cols = 0,
									   .y.data = y_there });
			values_check(s, &y, y_there, "activate");
		}
		values_free(&x);
		values_free(&y);
	}
}

/* Numbers whose divisor is a unit of its last place below a power of two, and others near them:
 * -log 7, of sigmoid, is one that a short division rounds wrongly. */
static void gates_whose_divisor_is_below_a_power_of_two_equal_num(void **state)
{
	static const struct {
		enum activation activation;
		uint32_t first;
	} rows[] = { { ACT_SIGMOID, 0xBFF91300 },
		     { ACT_SIGMOID, 0x33800000 },
		     { ACT_SILU, 0x33800000 },
		     { ACT_GELU, 0x33800000 } };

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		struct values x = values_new(1024, 0), y = values_new(1024, 0);

		for (size_t k = 0; k < x.n; k++) {
			values_set(&x, k, f32_from_bits(rows[i].first + (uint32_t)k));
			y.wanted[k] = activation_apply(rows[i].activation, x.given[k]);
		}
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);

			s->ops->gate(s->stream,
				     &(const struct gate_args){ .activation = rows[i].activation,
								.gate.data = x_there,
								.n_rows = 1,
								.n_cols = x.n,
								.y.data = y_there });
			values_check(s, &x, x_there, "what was activated");
			values_check(s, &y, y_there, "activate");
		}
		values_free(&x);
		values_free(&y);
	}
}

static void rows_are_scaled_in_place(void **state)
{
	static const float factors[] = { -0.7f, 1.1f, 0, 3e-3f };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 3; i++) {
		size_t n = edge_sizes[i / 3], n_rows = 1 + i % 4, stride = n + i % 3 * 2;
		struct values x = values_new(n_rows * stride, i % 2);
		bool each = i % 5 < 3;

		for (size_t k = 0; k < n_rows * n; k++)
			x.wanted[k / n * stride + k % n] *= each ? factors[k / n] : 0.3f;
		EACH_SIDE(s)
		{
			float *there = values_send(s, &x);
			float *factors_there = side_put(s, factors, sizeof factors);
			const struct scale_args args = { .x = { there, stride },
							 .factor = 0.3f,
							 .factors = each ? factors_there : NULL,
							 .n_rows = n_rows,
							 .n_cols = n };

			s->ops->scale(s->stream, &args);
			values_check(s, &x, there, "scale");
			s->ops->memory_free(s->executor, factors_there);
		}
		values_free(&x);
	}
}

static void interleaved_gates_equal_their_formula(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 2; i++) {
		size_t n = edge_sizes[i / 2];
		const float alpha = i % 2 ? 0.75f : 1.702f;
		struct values x = values_new(2 * n, i % 2), y = values_new(n, 0);

		specials_put(&x, 9);
		for (size_t k = 0; k < n; k++) {
			float gate = fminf(x.given[2 * k], 3.5f),
			      up = fmaxf(fminf(x.given[2 * k + 1], 3.5f), -3.5f);

			y.wanted[k] = (up + 1) * gate / (1.0f + f32_exp(-alpha * gate));
		}
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);

			s->ops->gate(s->stream, &(const struct gate_args){ .pairs = true,
									   .clamp = 3.5f,
									   .alpha = alpha,
									   .gate.data = x_there,
									   .n_rows = 1,
									   .n_cols = n,
									   .y.data = y_there });
			values_check(s, &x, x_there, "pairs");
			values_check(s, &y, y_there, "gates of pairs");
		}
		values_free(&x);
		values_free(&y);
	}
}

/* --- nothing to do --- */

/* All of x, of which nothing is changed: no values. */
static void run_no_values(const struct side *s, float *x)
{
	const struct executor_ops *ops = s->ops;
	struct value_stats *stats = (struct value_stats *)x;
	const size_t n = 0;

	ops->zero(s->stream, x, n);
	ops->put(s->stream, x, x, n);
	ops->measure(s->stream, &(const struct measure_args){ x, n, stats, (uint64_t *)x });
	ops->round(s->stream, &(const struct round_args){
				      .x = x, .n = n, .y = x, .rounded = { .stats = stats } });
	ops->round(s->stream, &(const struct round_args){
				      .x = x, .n = n, .rounded = { .codes = (uint16_t *)x } });
}

/* Likewise: no rows, or no columns. */
#define SIZES .n_rows = n_rows, .n_cols = n_cols
static void run_none(const struct side *s, float *x, size_t n_rows, size_t n_cols)
{
	const struct executor_ops *ops = s->ops;

	ops->add(s->stream,
		 &(const struct add_args){ .x = x, .y = x + 8, .n_rows = n_rows, .n = n_cols });
	ops->gate(s->stream, &(const struct gate_args){ .activation = ACT_SILU,
							.gate = { x, 4 },
							.up = { x + 8, 4 },
							SIZES,
							.y = { x + 16, 4 } });
	ops->gate(s->stream,
		  &(const struct gate_args){
			  .activation = ACT_SRELU, .gate.data = x, SIZES, .y.data = x + 8 });
	ops->scale(s->stream, &(const struct scale_args){ .x = { x, 4 }, SIZES });
	ops->gate(s->stream, &(const struct gate_args){ .pairs = true, .gate = { x, 4 }, SIZES });
	ops->copy(s->stream, &(const struct copy_args){
				     .y = { x, 4 }, .x = { x + 8, 4 }, .repeat = 1, SIZES });
	ops->copy(s->stream,
		  &(const struct copy_args){
			  .y = { x, 4 }, .x = { x + 8, 4 }, .repeat = 1, SIZES, .pairs = true });
	ops->copy(s->stream,
		  &(const struct copy_args){
			  .y = { x, 4 }, .x = { x + 8, 4 }, SIZES, .rows = (uint32_t *)(x + 16) });
	ops->rms_norm(s->stream, &(const struct rms_norm_args){ .x = { x, 4 },
								.weight = x + 8,
								.offset = 0,
								.eps = 0,
								SIZES,
								.y = { x + 16, 4 } });
	ops->rope(s->stream, &(const struct rope_args){ .x = { x, 4 },
							.n_tokens = n_rows,
							.n_heads = 1,
							.head_dim = 4,
							.cosines = x + 8,
							.sines = x + 16,
							.rope_dim = n_cols });
}
#undef SIZES

static void operations_on_nothing_write_nothing(void **state)
{
	struct values x = values_new(32, 0);

	(void)state;
	for (size_t i = 0; i < 4; i++)
		values_set(&x, i, 0); /* stats of no values */
	EACH_SIDE(s)
	{
		float *there = values_send(s, &x);

		run_no_values(s, there);
		run_none(s, there, 0, 4);
		run_none(s, there, 3, 0);
		run_none(s, there, 0, 0);
		values_check(s, &x, there, "no rows");
	}
	values_free(&x);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(executors_name_their_library),
		cmocka_unit_test(bytes_go_there_and_back),
		cmocka_unit_test(stats_are_those_of_every_value),
		cmocka_unit_test(rounding_equals_num),
		cmocka_unit_test(additions_keep_their_order),
		cmocka_unit_test(gates_equal_the_activations_of_num),
		cmocka_unit_test(activations_equal_num),
		cmocka_unit_test(gates_whose_divisor_is_below_a_power_of_two_equal_num),
		cmocka_unit_test(rows_are_scaled_in_place),
		cmocka_unit_test(interleaved_gates_equal_their_formula),
		cmocka_unit_test(operations_on_nothing_write_nothing),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
