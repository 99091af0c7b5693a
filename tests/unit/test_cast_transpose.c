/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations whose output is FP8, on every backend: norms and activations against
 * tests/golden/fused.txt, the exponential against libm, and the update after an FP8 GEMM.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "num/history.h"
#include "support/golden.h"
#include "support/kernel_parity.h"

static void run_norm(const void *args, const struct backend *backend, const struct quantizer *q,
		     struct quantized_tensor *t, struct quant_stats *stats)
{
	struct fp8_out out = quantizer_out(q, t, stats);

	backend_norm(backend, args, &q->spec, &out);
}

static void run_activate(const void *args, const struct backend *backend, const struct quantizer *q,
			 struct quantized_tensor *t, struct quant_stats *stats)
{
	struct fp8_out out = quantizer_out(q, t, stats);

	backend_activate(backend, args, &q->spec, &out);
}

/* What the last line "norm" or "activation" said, over the last input. */
struct fused_case {
	struct input x, gamma, beta, up;
	struct norm_args norm;
	struct activation_args activation;
	float *mu, *rsigma;
	char hashes[2][65];
	bool is_norm;
};

static struct matrix other_input(struct input *in, const struct fused_case *c, size_t rows,
				 const char *seed)
{
	if (!strcmp(seed, "-"))
		return (struct matrix){ .data = NULL };
	input_normal(in, c->x.dtype, rows, c->x.cols, text_number(seed));
	return input_matrix(in);
}

/* norm kind zero_centered eps gamma beta sha_mu sha_rsigma */
static void norm_begin(struct fused_case *c, char **fields)
{
	free(c->mu);
	free(c->rsigma);
	c->mu = calloc(c->x.rows, sizeof *c->mu);
	c->rsigma = calloc(c->x.rows, sizeof *c->rsigma);
	assert_true(c->mu && c->rsigma);
	c->is_norm = true;
	c->norm = (struct norm_args){
		.kind = !strcmp(fields[1], "layer") ? NORM_LAYER : NORM_RMS,
		.x = input_matrix(&c->x),
		.gamma = other_input(&c->gamma, c, 1, fields[4]),
		.beta = other_input(&c->beta, c, 1, fields[5]),
		.epsilon = f32_from_bits(text_bits(fields[3])),
		.zero_centered_gamma = !strcmp(fields[2], "1"),
		.mu = strcmp(fields[6], "-") ? c->mu : NULL,
		.rsigma = c->rsigma,
	};
	snprintf(c->hashes[0], sizeof c->hashes[0], "%s", fields[6]);
	snprintf(c->hashes[1], sizeof c->hashes[1], "%s", fields[7]);
}

/* activation name up */
static void activation_begin(struct fused_case *c, char **fields)
{
	c->is_norm = false;
	c->activation = (struct activation_args){
		.activation = !strcmp(fields[1], "silu")   ? ACT_SILU
			      : !strcmp(fields[1], "gelu") ? ACT_GELU
							   : ACT_SRELU,
		.x = input_matrix(&c->x),
		.up = other_input(&c->up, c, c->x.rows, fields[2]),
	};
}

static void slot_check(const struct fused_case *c, const struct text *g)
{
	struct operation op = { c->is_norm ? run_norm : run_activate,
				c->is_norm ? (const void *)&c->norm : &c->activation, c->x.rows,
				c->x.cols };
	size_t n = c->x.rows * sizeof(float);

	golden_slot_check(g, &op);
	if (c->is_norm && !hash_is(c->hashes[1], c->rsigma, n))
		fail_msg("%s:%d: another rsigma", g->name, g->line_no);
	if (c->is_norm && c->norm.mu && !hash_is(c->hashes[0], c->mu, n))
		fail_msg("%s:%d: another mu", g->name, g->line_no);
}

static void norms_and_activations_equal_the_golden_codes(void **state)
{
	struct fused_case c = { .is_norm = false };
	size_t n_slots = 0;
	struct text g;

	(void)state;
	text_open(&g, GOLDEN_DIR "fused.txt");
	while (text_next(&g)) {
		if (!strcmp(g.fields[0], "input")) {
			input_init(&c.x, g.fields + 1);
		} else if (!strcmp(g.fields[0], "norm")) {
			norm_begin(&c, g.fields);
		} else if (!strcmp(g.fields[0], "activation")) {
			activation_begin(&c, g.fields);
		} else {
			slot_check(&c, &g);
			n_slots++;
		}
	}
	assert_true(n_slots > 250);
	free(c.x.data);
	free(c.gamma.data);
	free(c.beta.data);
	free(c.up.data);
	free(c.mu);
	free(c.rsigma);
}

/* |got - exact| in units of the last place of exact. */
static double ulps(float got, double exact)
{
	int exponent;

	frexp(exact, &exponent);
	return fabs(got - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* Every 401st float, both signs, against libm in double: the worst error in ulps. */
static double worst_of(float (*function)(float))
{
	double worst = 0;

	for (uint32_t bits = 0; bits < 0x43000000; bits += 401) { /* to 128 */
		for (int negative = 0; negative < 2; negative++) {
			float x = f32_from_bits(bits | (uint32_t)negative << 31), y = function(x);
			double exact = exp((double)x);

			if (x > 88.72284f)
				assert_true(isinf(y));
			else if (x < -103.98f)
				assert_true(y == 0);
			else
				worst = fmax(worst, ulps(y, exact));
		}
	}
	assert_true(isnan(function(NAN)) && isinf(function(INFINITY)) && function(-INFINITY) == 0);
	assert_true(function(0) == 1 && function(-0.0f) == 1);
	return worst;
}

static void the_exponential_is_within_1_1_ulps(void **state)
{
	double worst = worst_of(f32_exp), fine = worst_of(f32_exp_fine);

	(void)state;
	print_message("exp: within %.3f ulp; fine: within %.4f ulp\n", worst, fine);
	assert_true(worst < 1.1);
	assert_true(fine < 0.502);
}

static void activations_of_special_values_are_known(void **state)
{
	static const struct {
		enum activation activation;
		float x, y;
	} cases[] = {
		{ ACT_SILU, 0, 0 },
		{ ACT_SILU, 100, 100 },
		{ ACT_SILU, -200, -0.0f },
		{ ACT_GELU, 0, 0 },
		{ ACT_GELU, 100, 100 },
		{ ACT_GELU, -100, -0.0f },
		{ ACT_SRELU, -3, 0 },
		{ ACT_SRELU, 3, 9 },
		{ ACT_SRELU, -0.0f, 0 },
		{ ACT_SILU, INFINITY, INFINITY },
		{ ACT_GELU, INFINITY, INFINITY },
		{ ACT_SRELU, -INFINITY, 0 },
		{ ACT_SRELU, 1e30f, INFINITY },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(f32_bits(activation_apply(cases[i].activation, cases[i].x)),
				 f32_bits(cases[i].y));
	for (int i = 0; i < 3; i++)
		assert_true(isnan(activation_apply((enum activation)i, NAN)));
}

static void the_update_after_a_gemm_is_known(void **state)
{
	static const struct {
		float scale, amax, before, scale_inv, after;
	} cases[] = {
		{ 2, 3, 1, 0.5f, 3 },
		{ 448, 3, 5, 0x1.24924ap-9f, 5 },
		{ 0x1.fffffep127f, 0, 0, 0x1p-128f, 0 },
		{ 1, NAN, 2, 1, 2 },
		{ 1, INFINITY, 2, 1, INFINITY },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float scale_inv = 0, amax = cases[i].before;

		history_gemm_update(cases[i].scale, cases[i].amax, &scale_inv, &amax);
		assert_int_equal(f32_bits(scale_inv), f32_bits(cases[i].scale_inv));
		assert_true(amax == cases[i].after);
	}
}

/* Without rows or columns there is nothing to write. */
static void an_empty_matrix_writes_nothing(void **state)
{
	struct quantizer q = { .spec = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
			       .rowwise = true,
			       .columnwise = true,
			       .order = SCALES_GEMM };
	struct quant_stats stats = { 0 };
	struct quantized_tensor t;
	struct err err = { 0 };
	float x = INFINITY;

	(void)state;
	for (const struct backend *const *b = backends; *b; b++) {
		for (size_t i = 0; i < 2 && !(*b)->unusable(); i++) {
			struct matrix m = { &x, DT_F32, i, 1 - i, 1 };

			assert_int_equal(quantizer_make_empty(&q, m.rows, m.cols, &t, &err), 0);
			quantizer_quantize(&q, *b, &m, &t, &stats);
			assert_int_equal(backend_failed(*b, "t", &err), 0);
			assert_int_equal(stats.saturated + stats.nonfinite, 0);
			quantized_tensor_release(&t);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(norms_and_activations_equal_the_golden_codes),
		cmocka_unit_test(the_exponential_is_within_1_1_ulps),
		cmocka_unit_test(activations_of_special_values_are_known),
		cmocka_unit_test(the_update_after_a_gemm_is_known),
		cmocka_unit_test(an_empty_matrix_writes_nothing),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
