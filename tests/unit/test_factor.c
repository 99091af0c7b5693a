/* SPDX-License-Identifier: Apache-2.0
 *
 * compensate/factor.h: the factor against the text in plain loops, bit for bit, and against the
 * matrix that it must reproduce, in fp64.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_parity.h"

static const size_t sizes[] = { 1, 2, 3, 15, 16, 17, 40, 64, 65, 100, 131, 200, 277 };
#define N_SIZES (sizeof sizes / sizeof *sizes)

static float u_at(const struct factor *factor, size_t i, size_t j)
{
	const struct triangle t = { factor->u, triangle_padded(factor->n) };

	return triangle_at(&t, i - i % TRIANGLE_PANEL, j)[i % TRIANGLE_PANEL];
}

static struct factor factor_of(const float *h, size_t n, float rho, struct way way)
{
	const struct hessian hessian = { h, n, way.ops, way.n_threads, NULL };
	struct factor factor;
	struct err err = { 0 };

	assert_int_equal(factor_make(&factor, &hessian, rho, &err), 0);
	assert_int_equal(factor.n, n);
	for (size_t j = 0; j < n; j++)
		assert_int_equal(factor.order[factor.rank[j]], j);
	return factor;
}

/* The element of the upper triangle for any i and j. */
static float symmetric(const float *h, size_t n, size_t i, size_t j)
{
	return i < j ? h[i * n + j] : h[j * n + i];
}

/* The shrunk, damped and ordered matrix, as the text has it, in fp32. */
static float *regularized(const float *h, const struct factor *factor)
{
	size_t n = factor->n;
	float *a = xcalloc(n * n, sizeof *a), keep = 1 - factor->rho;
	double mean = 0; /* times n */

	for (size_t j = 0; j < n; j++)
		mean += (double)h[j * n + j];
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			float v = symmetric(h, n, factor->order[i], factor->order[j]);

			a[i * n + j] = i == j ? v + 0.001f * (float)(mean / (double)n) : v * keep;
		}
	return a;
}

/* U D U^T is that matrix, up to the rounding of n operations. */
static void assert_reproduces(const float *h, const struct factor *factor)
{
	size_t n = factor->n;
	float *a = regularized(h, factor);
	double *d = xcalloc(n, sizeof *d);

	for (size_t j = n; j-- > 0;) {
		d[j] = (double)a[j * n + j];
		for (size_t k = j + 1; k < n; k++)
			d[j] -= d[k] * pow((double)u_at(factor, j, k), 2);
		assert_true(d[j] > 0);
		assert_true(u_at(factor, j, j) == 1);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++) {
			double product = 0;
			double size = sqrt((double)a[i * n + i] * (double)a[j * n + j]);

			for (size_t k = j; k < n; k++)
				product += (double)u_at(factor, i, k) * d[k] *
					   (double)u_at(factor, j, k);
			assert_true(fabs(product - (double)a[i * n + j]) <=
				    size * (double)(n + 8) * 0x1p-24);
		}
	free(a);
	free(d);
}

static void the_factor_reproduces_the_matrix(void **state)
{
	static const float rhos[] = { 0, 0.3f, 0.8f };

	(void)state;
	for (size_t s = 0; s < N_SIZES; s++)
		for (size_t r = 0; r < 3; r++) {
			float *h = hessian_new(sizes[s], sizes[s] / 2 + 2, (uint32_t)s);
			struct factor factor = factor_of(h, sizes[s], rhos[r], way_at(0));

			assert_true(factor.rho == rhos[r]);
			assert_false(factor.zero);
			assert_reproduces(h, &factor);
			factor_release(&factor);
			free(h);
		}
}

/* The text in plain loops: C in place of a, then its columns divided by their pivots. */
static void plain_factor(float *a, size_t n)
{
	for (size_t j = n; j-- > 0;) {
		for (size_t i = 0; i <= j; i++)
			for (size_t k = n; k-- > j + 1;)
				a[i * n + j] = fmaf(-a[i * n + k], a[j * n + k], a[i * n + j]);
		a[j * n + j] = sqrtf(a[j * n + j]);
		for (size_t i = 0; i < j; i++)
			a[i * n + j] /= a[j * n + j];
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = n; j-- > i;)
			a[i * n + j] /= a[j * n + j];
}

static void every_way_gives_the_bits_of_plain_loops(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_SIZES; s++) {
		size_t n = sizes[s];
		float *h = hessian_new(n, n, (uint32_t)s + 100);

		for (size_t w = 0; way_at(w).ops; w++) {
			struct factor factor = factor_of(h, n, 0.3f, way_at(w));
			float *a = regularized(h, &factor);

			plain_factor(a, n);
			for (size_t i = 0; i < n; i++)
				for (size_t j = i; j < n; j++) {
					float got = u_at(&factor, i, j);

					assert_memory_equal(&got, &a[i * n + j], sizeof got);
				}
			free(a);
			factor_release(&factor);
		}
		free(h);
	}
}

static void columns_are_ordered_by_size_and_then_by_number(void **state)
{
	static const float diagonal[] = { 2, 0, 5, 2, 7, 0, 5, 2, 5 };
	static const uint32_t order[] = { 4, 2, 6, 8, 0, 3, 7, 1, 5 };
	enum { N = sizeof order / sizeof *order };
	float h[N * N];
	struct factor factor;

	(void)state;
	for (size_t i = 0; i < N * N; i++)
		h[i] = i % (N + 1) ? 0 : diagonal[i / (N + 1)];
	h[2 * N + 4] = 3;
	factor = factor_of(h, N, 0, way_at(0));
	assert_memory_equal(factor.order, order, sizeof order);
	assert_true(factor.rho == 0);
	/* Dead columns give no term to others and take none. */
	for (size_t i = 0; i < N; i++)
		for (size_t j = i + 1; j < N; j++)
			assert_true(i == 0 && j == 1 ? fabsf(u_at(&factor, i, j) - 0.6f) < 1e-3f
						     : u_at(&factor, i, j) == 0);
	factor_release(&factor);
}

/* They come last, and there is no factor. */
static void diagonals_that_are_nan_have_an_order_too(void **state)
{
	static const float h[] = { NAN, 0, 0, 0, 0, 1, 0, 0, 0, 0, NAN, 0, 0, 0, 0, 2 };
	static const uint32_t order[] = { 3, 1, 0, 2 };
	struct factor factor = factor_of(h, 4, 0.3f, way_at(0));

	(void)state;
	assert_memory_equal(factor.order, order, sizeof order);
	assert_true(factor.rho == 1);
	assert_null(factor.u);
	factor_release(&factor);
}

/* A matrix {{1, x}, {x, y}} is positive if x^2 (1 - rho)^2 < 1.001 y, about. */
static void a_pivot_that_is_not_positive_raises_rho(void **state)
{
	static const struct {
		float x, y, rho, used;
	} cases[] = {
		{ 1.2f, 1, 0.3f, 0.3f },      { 5, 1, 0.3f, 0.8f },
		{ 7, 1, 0.3f, 0.9f },	      { 50, 1, 0.3f, 1 },
		{ 5, 1, 0.85f, 0.85f },	      { 9, 1, 0.85f, 0.9f },
		{ 50, 1, 0.95f, 1 },	      { 0, 1, 1, 1 },
		{ NAN, 1, 0.3f, 1 },	      { INFINITY, 1, 0.3f, 1 },
		{ 0.5f, NAN, 0.3f, 1 },	      { 0.5f, INFINITY, 0.3f, 1 },
		{ 0.5f, -INFINITY, 0.3f, 1 }, { 3e38f, 3e38f, 0.3f, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t w = 0; way_at(w).ops; w++) {
			const float h[] = { 1, cases[i].x, NAN, cases[i].y };
			struct factor factor = factor_of(h, 2, cases[i].rho, way_at(w));

			assert_true(factor.rho == cases[i].used);
			assert_int_equal(factor.u == NULL, cases[i].used == 1);
			assert_int_equal(factor.order[0] + factor.order[1], 1);
			assert_false(factor.zero);
			factor_release(&factor);
		}
}

/* A pivot fails in any block, not only in the first one that is computed. */
static void every_pivot_is_looked_at(void **state)
{
	enum { N = 150 };

	(void)state;
	for (size_t bad = 1; bad < N; bad += 7) {
		float *h = hessian_new(N, 2 * N, 9);
		struct factor factor;
		size_t first, second;

		factor = factor_of(h, N, 0, way_at(0));
		first = factor.order[bad - 1];
		second = factor.order[bad];
		assert_true(factor.rho == 0);
		factor_release(&factor);
		h[first < second ? first * N + second : second * N + first] = NAN;
		factor = factor_of(h, N, 0, way_at(0));
		assert_true(factor.rho == 1);
		factor_release(&factor);
		free(h);
	}
}

static void a_diagonal_of_zeros_is_told(void **state)
{
	static const float h[4];
	struct factor factor = factor_of(h, 2, 0.3f, way_at(0));

	(void)state;
	assert_true(factor.zero);
	assert_null(factor.u);
	assert_true(factor.rho == 0.3f);
	assert_int_equal(factor.order[0], 0);
	assert_int_equal(factor.order[1], 1);
	factor_release(&factor);
}

static void a_signal_ends_it(void **state)
{
	atomic_int stop = 15;
	float *h = hessian_new(100, 100, 1);
	const struct hessian hessian = { h, 100, way_at(0).ops, 2, &stop };
	struct factor factor;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(factor_make(&factor, &hessian, 0.3f, &err), -1);
	assert_int_equal(err.kind, ERR_INTERRUPTED);
	assert_null(factor.u);
	assert_null(factor.order);
	free(h);
}

/* n = 100 pads to 112: (112 * 128 / 2 + 2 * 100 + 112) floats. */
static void the_size_is_that_of_all_arrays(void **state)
{
	(void)state;
	assert_int_equal(factor_size(100), 4 * (7168 + 2 * 100 + 112));
	assert_int_equal(factor_size(28672), 4 * (411271168ull + 3 * 28672));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_factor_reproduces_the_matrix),
		cmocka_unit_test(every_way_gives_the_bits_of_plain_loops),
		cmocka_unit_test(columns_are_ordered_by_size_and_then_by_number),
		cmocka_unit_test(diagonals_that_are_nan_have_an_order_too),
		cmocka_unit_test(a_pivot_that_is_not_positive_raises_rho),
		cmocka_unit_test(every_pivot_is_looked_at),
		cmocka_unit_test(a_diagonal_of_zeros_is_told),
		cmocka_unit_test(a_signal_ends_it),
		cmocka_unit_test(the_size_is_that_of_all_arrays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
