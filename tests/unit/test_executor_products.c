/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: products, whole and by panels, against double, on the executor of every
 * backend.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/float16.h"
#include "support/executor_sides.h"

struct product {
	enum dtype dtype;
	size_t m, n, k;
	float *x, *w; /* (m, k), (n, k), of values that dtype has */
};

/* n values as they are in dtype. */
static void *as(enum dtype dtype, const float *values, size_t n)
{
	uint16_t *halves;
	void *memory = host_memory_new(n * sizeof *values);

	if (dtype == DT_F32)
		return memcpy(memory, values, n * sizeof *values);
	halves = memory;
	for (size_t i = 0; i < n; i++)
		halves[i] = bf16_from_f32(values[i]);
	return memory;
}

static size_t size_of(enum dtype dtype)
{
	return dtype_bits(dtype) / 8;
}

static float *operand_new(enum dtype dtype, size_t n)
{
	float *values = host_memory_new(n * sizeof *values);

	for (size_t i = 0; i < n; i++)
		values[i] =
			dtype == DT_F32 ? noise_next() : bf16_to_f32(bf16_from_f32(noise_next()));
	return values;
}

/* The last panel first: their order is free. */
static struct executor_weight weight_new(const struct side *s, const struct product *p)
{
	struct executor_weight weight = {
		s->executor, p->dtype, p->n, p->k, s->ops->portion(PORTION_WEIGHT, p->n), NULL
	};
	struct err err;

	if (s->ops->weight_init(&weight, &err))
		fail_msg("%s: %s", s->ops->name, err.message);
	assert_int_equal(weight.panel_rows, s->ops->portion(PORTION_WEIGHT, p->n));
	for (size_t panel = executor_weight_panels(&weight); panel-- > 0;) {
		void *rows = as(p->dtype, p->w + panel * weight.panel_rows * p->k,
				executor_weight_panel_rows(&weight, panel) * p->k);

		if (s->ops->weight_set(&weight, panel, rows, &err))
			fail_msg("%s: %s", s->ops->name, err.message);
		free(rows);
	}
	return weight;
}

/* y (m, n): rows first, first + 1, ... of w.  A sum of k products in fp32 is off by k steps, of
 * 2^-23 of all magnitudes: a GPU cuts off where others round. */
static void product_check(const struct side *s, const struct product *p, const float *y,
			  size_t first, size_t n)
{
	for (size_t i = 0; i < p->m * n; i++) {
		const float *x = p->x + i / n * p->k, *w = p->w + (first + i % n) * p->k;
		double sum = 0, magnitude = 0;

		for (size_t l = 0; l < p->k; l++) {
			sum += (double)x[l] * (double)w[l];
			magnitude += fabs((double)x[l] * (double)w[l]);
		}
		if (!(fabs((double)y[i] - sum) <= ldexp((double)p->k * magnitude, -23)))
			fail_msg("%s: %zux%zux%zu %s: (%zu, %zu): %g, not %g", s->ops->name, p->m,
				 p->n, p->k, dtype_name(p->dtype), i / n, first + i % n,
				 (double)y[i], sum);
	}
}

/* One panel's columns, or with panel SIZE_MAX all.  Behind the last of y nothing is written. */
static void product_at(const struct side *s, const struct product *p,
		       const struct executor_weight *weight, size_t panel, const void *x)
{
	bool all = panel == SIZE_MAX;
	size_t n = all ? p->n : executor_weight_panel_rows(weight, panel),
	       first = all ? 0 : panel * weight->panel_rows;
	struct values y = values_new(p->m * n + 1, 0);
	float *there = values_send(s, &y), last = y.given[p->m * n];

	if (all)
		s->ops->multiply(s->stream, &(const struct multiply_args){ weight, x, p->m, there,
									   NULL, false });
	else
		s->ops->multiply(s->stream, &(const struct multiply_args){ weight, x, p->m, there,
									   &panel, false });
	side_take(s, there, y.given, y.n * sizeof *there);
	assert_true(floats_same(y.given[p->m * n], last));
	product_check(s, p, y.given, first, n);
	values_free(&y);
}

/* x begins a row behind the begin of its memory. */
static void multiply_at(enum dtype dtype, const struct side *s, size_t m, size_t n, size_t k)
{
	struct product p = {
		dtype, m, n, k, operand_new(dtype, (m + 1) * k), operand_new(dtype, n * k)
	};
	struct executor_weight weight = weight_new(s, &p);
	void *x = as(dtype, p.x, (m + 1) * k),
	     *there = side_put(s, x, (m + 1) * k * size_of(dtype));
	float *rows = p.x;

	p.x += k;
	product_at(s, &p, &weight, SIZE_MAX, (char *)there + k * size_of(dtype));
	for (size_t panel = 0; panel < executor_weight_panels(&weight); panel++)
		product_at(s, &p, &weight, panel, (char *)there + k * size_of(dtype));
	s->ops->memory_free(s->executor, there);
	s->ops->weight_release(&weight);
	free(x);
	free(rows);
	free(p.w);
}

static void products_are_within_their_bound(void **state)
{
	static const struct {
		size_t m, n, k;
	} shapes[] = { { 1, 1, 1 },	{ 1, 17, 33 },	 { 5, 23, 9 },	  { 3, 7, 5 },
		       { 32, 64, 96 },	{ 33, 65, 127 }, { 31, 130, 64 }, { 70, 129, 255 },
		       { 2, 16384, 3 }, { 3, 16389, 8 }, { 5, 33000, 5 } };

	(void)state;
	EACH_SIDE(s)
	{
		for (size_t i = 0; i < N_OF(shapes); i++) {
			if (sides_small && shapes[i].n > 1000)
				continue;
			multiply_at(DT_F32, s, shapes[i].m, shapes[i].n, shapes[i].k);
			multiply_at(s->ops->bf16_type(), s, shapes[i].m, shapes[i].n, shapes[i].k);
		}
	}
}

/* The same bits in another stream, at the same time. */
static void two_streams_give_the_same_bits(void **state)
{
	enum { M = 37, N = 150, K = 260 };
	struct product p = {
		DT_F32, M, N, K, operand_new(DT_F32, M * K), operand_new(DT_F32, N * K)
	};
	static float one[M * N], other[M * N];
	struct err err;

	(void)state;
	EACH_SIDE(s)
	{
		struct side second = *s;
		struct executor_weight weight = weight_new(s, &p);
		float *x = side_put(s, p.x, M * K * sizeof *x), *y = side_memory_new(s, sizeof one);
		float *y_other = side_memory_new(s, sizeof other);

		assert_int_equal(s->ops->stream_new(&second.stream, s->executor, &err), 0);
		s->ops->multiply(s->stream,
				 &(const struct multiply_args){ &weight, x, M, y, NULL, false });
		s->ops->multiply(second.stream, &(const struct multiply_args){
							&weight, x, M, y_other, NULL, false });
		side_take(s, y, one, sizeof one);
		side_take(&second, y_other, other, sizeof other);
		assert_memory_equal(one, other, sizeof one);
		s->ops->stream_free(second.stream);
		s->ops->memory_free(s->executor, x);
		s->ops->weight_release(&weight);
	}
	free(p.x);
	free(p.w);
}

static void no_rows_write_nothing(void **state)
{
	struct product p = { DT_F32, 0, 3, 5, NULL, operand_new(DT_F32, 15) };
	struct values y = values_new(3, 0);

	(void)state;
	EACH_SIDE(s)
	{
		struct executor_weight weight = weight_new(s, &p);
		float *there = values_send(s, &y);

		s->ops->multiply(s->stream, &(const struct multiply_args){ &weight, there, 0, there,
									   NULL, false });
		s->ops->multiply(s->stream, &(const struct multiply_args){ &weight, there, 0, there,
									   &(size_t){ 0 }, false });
		values_check(s, &y, there, "no rows");
		s->ops->weight_release(&weight);
	}
	values_free(&y);
	free(p.w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_are_within_their_bound),
		cmocka_unit_test(two_streams_give_the_same_bits),
		cmocka_unit_test(no_rows_write_nothing),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
