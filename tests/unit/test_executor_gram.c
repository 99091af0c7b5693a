/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: gram(), which adds x^T x to panels of a matrix of sums, against plain loops
 * in double, on the executor of every backend.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/float16.h"
#include "support/executor_sides.h"

struct slab {
	enum dtype dtype;
	size_t m, k;
	float *x; /* (m, k), of values that dtype has */
};

/* The types of x on a side. */
static enum dtype dtype_of(const struct side *s, size_t i)
{
	return i == 0 ? DT_F32 : s->ops->bf16_type();
}

#define N_DTYPES 2

/* Whole numbers have exact sums. */
static struct slab slab_new(enum dtype dtype, size_t m, size_t k, bool whole)
{
	struct slab slab = { dtype, m, k, host_memory_new(m * k * sizeof(float)) };

	for (size_t i = 0; i < m * k; i++) {
		float v = whole ? rintf(4 * noise_next()) : noise_next();

		slab.x[i] = dtype == DT_F32 ? v : bf16_to_f32(bf16_from_f32(v));
	}
	return slab;
}

/* x on a side, in its type. */
static void *slab_send(const struct side *s, const struct slab *slab)
{
	size_t n = slab->m * slab->k;
	uint16_t *halves;
	void *there;

	if (slab->dtype == DT_F32)
		return side_put(s, slab->x, n * sizeof *slab->x);
	halves = host_memory_new(n * sizeof *halves);
	for (size_t i = 0; i < n; i++)
		halves[i] = bf16_from_f32(slab->x[i]);
	there = side_put(s, halves, n * sizeof *halves);
	free(halves);
	return there;
}

static struct gram_args args_of(const struct slab *slab, const void *x, float *h)
{
	return (struct gram_args){
		.x = x, .dtype = slab->dtype, .m = slab->m, .k = slab->k, .n = slab->k, .h = h
	};
}

/* The sum that element (i, j) of h becomes, and of magnitudes. */
static double sum_at(const struct slab *slab, const float *h, size_t i, double *magnitude)
{
	double sum = h[i];

	*magnitude = fabs(sum);
	for (size_t t = 0; t < slab->m; t++) {
		const float *row = slab->x + t * slab->k;
		double product = (double)row[i / slab->k] * (double)row[i % slab->k];

		sum += product;
		*magnitude += fabs(product);
	}
	return sum;
}

static bool is_inside(const struct slab *slab, size_t first, size_t n, size_t i)
{
	size_t row = i / slab->k, col = i % slab->k;

	return row < first + n && col >= first && col < first + n;
}

/* m additions in fp32 are off by m steps, of 2^-23 of all magnitudes: a GPU cuts off where others
 * round.  Elements outside the panel stay, and so does the one behind h. */
static void panel_check(const struct side *s, const struct slab *slab, size_t first, size_t n)
{
	size_t k = slab->k;
	struct values h = values_new(k * k + 1, 0);
	float *there = values_send(s, &h), *got = host_memory_new(h.n * sizeof *got);
	void *x = slab_send(s, slab);
	struct gram_args args = args_of(slab, x, there);

	args.first = first;
	args.n = n;
	s->ops->gram(s->stream, &args);
	side_take(s, there, got, h.n * sizeof *got);
	for (size_t i = 0; i < h.n; i++) {
		double magnitude, sum;

		if (i == k * k || !is_inside(slab, first, n, i)) {
			if (!floats_same(got[i], h.given[i]))
				fail_msg("%s: k %zu, columns %zu + %zu: (%zu, %zu) was written",
					 s->ops->name, k, first, n, i / k, i % k);
			continue;
		}
		sum = sum_at(slab, h.given, i, &magnitude);
		if (!(fabs((double)got[i] - sum) <= ldexp((double)(slab->m + 1) * magnitude, -23)))
			fail_msg("%s: x (%zu, %zu) %s, columns %zu + %zu: (%zu, %zu): %g, not %g",
				 s->ops->name, slab->m, k, dtype_name(slab->dtype), first, n, i / k,
				 i % k, (double)got[i], sum);
	}
	s->ops->memory_free(s->executor, x);
	free(got);
	values_free(&h);
}

static void panels_are_within_their_bound(void **state)
{
	static const struct {
		size_t m, k, first, n;
	} rows[] = {
		{ 1, 1, 0, 1 },	     { 1, 7, 0, 7 },	 { 7, 1, 0, 1 },      { 7, 33, 0, 33 },
		{ 33, 7, 2, 3 },     { 33, 33, 32, 1 },	 { 33, 33, 0, 1 },    { 64, 48, 16, 16 },
		{ 33, 130, 5, 70 },  { 512, 33, 7, 20 }, { 65, 129, 64, 65 }, { 3, 300, 128, 172 },
		{ 1000, 20, 4, 12 }, { 2049, 9, 0, 9 },
	};

	(void)state;
	EACH_SIDE(s)
	{
		for (size_t type = 0; type < N_DTYPES; type++) {
			enum dtype dtype = dtype_of(s, type);
			for (size_t i = 0; i < N_OF(rows); i++) {
				struct slab slab = slab_new(dtype, rows[i].m, rows[i].k, false);

				panel_check(s, &slab, rows[i].first, rows[i].n);
				free(slab.x);
			}
		}
	}
}

/* All panels of PORTION_GRAM columns. */
static void panels_add(const struct side *s, struct gram_args args)
{
	size_t n = s->ops->portion(PORTION_GRAM, args.k);

	assert_true(n > 0);
	for (args.first = 0; args.first < args.k; args.first += n) {
		args.n = args.k - args.first < n ? args.k - args.first : n;
		s->ops->gram(s->stream, &args);
	}
}

/* Sums of whole numbers below 2^24 are exact in any order, so that slabs add up to one sum. */
static void whole_numbers_are_exact(void **state)
{
	enum { K = 300 };
	static const size_t slabs[] = { 33, 1, 520, 7 };
	static float h[K * K];
	static double sums[K * K];

	(void)state;
	EACH_SIDE(s)
	{
		for (size_t type = 0; type < N_DTYPES; type++) {
			enum dtype dtype = dtype_of(s, type);
			float *there = side_memory_new(s, sizeof h);

			s->ops->zero(s->stream, there, sizeof h);
			memset(sums, 0, sizeof sums);
			for (size_t i = 0; i < N_OF(slabs); i++) {
				struct slab slab = slab_new(dtype, slabs[i], K, true);
				void *x = slab_send(s, &slab);
				double ignored;

				panels_add(s, args_of(&slab, x, there));
				side_wait(s);
				memset(h, 0, sizeof h);
				for (size_t j = 0; j < K * K; j++)
					sums[j] += sum_at(&slab, h, j, &ignored);
				s->ops->memory_free(s->executor, x);
				free(slab.x);
			}
			side_take(s, there, h, sizeof h);
			for (size_t i = 0; i < K * K; i++) {
				if (i % K >= i / K && (double)h[i] != sums[i])
					fail_msg("%s: %s: (%zu, %zu): %g, not %g", s->ops->name,
						 dtype_name(dtype), i / K, i % K, (double)h[i],
						 sums[i]);
			}
		}
	}
}

/* One thread's sums of all slabs. */
struct summing {
	struct side side;
	const struct slab *slabs;
	void *const *x;
	size_t n;
	float *h;
};

static void *summing_run(void *argument)
{
	const struct summing *summing = argument;

	for (size_t i = 0; i < summing->n; i++)
		panels_add(&summing->side, args_of(&summing->slabs[i], summing->x[i], summing->h));
	return NULL;
}

/* Both h begin with the same values. */
static struct summing summing_new(const struct side *s, const struct values *h)
{
	struct summing summing = { .side = *s, .h = values_send(s, h) };
	struct err err;

	if (s->ops->stream_new(&summing.side.stream, s->executor, &err))
		fail_msg("%s: %s", s->ops->name, err.message);
	return summing;
}

/* At the same time, each on a stream of its own. */
static void two_threads_give_the_same_bits(void **state)
{
	enum { K = 300, SLABS = 3 };
	static float one[K * K], other[K * K];

	(void)state;
	EACH_SIDE(s)
	{
		for (size_t type = 0; type < N_DTYPES; type++) {
			enum dtype dtype = dtype_of(s, type);
			const struct slab slabs[SLABS] = { slab_new(dtype, 70, K, false),
							   slab_new(dtype, 513, K, false),
							   slab_new(dtype, 1, K, false) };
			struct values h = values_new(K * K, 0);
			struct summing summings[] = { summing_new(s, &h), summing_new(s, &h) };
			pthread_t threads[2];
			void *x[SLABS];

			for (size_t i = 0; i < SLABS; i++)
				x[i] = slab_send(s, &slabs[i]);
			for (size_t i = 0; i < 2; i++) {
				summings[i].slabs = slabs;
				summings[i].x = x;
				summings[i].n = SLABS;
				assert_int_equal(pthread_create(&threads[i], NULL, summing_run,
								&summings[i]),
						 0);
			}
			for (size_t i = 0; i < 2; i++)
				assert_int_equal(pthread_join(threads[i], NULL), 0);
			side_take(&summings[0].side, summings[0].h, one, sizeof one);
			side_take(&summings[1].side, summings[1].h, other, sizeof other);
			assert_memory_equal(one, other, sizeof one);
			for (size_t i = 0; i < 2; i++)
				s->ops->stream_free(summings[i].side.stream);
			for (size_t i = 0; i < SLABS; i++) {
				s->ops->memory_free(s->executor, x[i]);
				free(slabs[i].x);
			}
			values_free(&h);
		}
	}
}

static void no_tokens_and_no_columns_write_nothing(void **state)
{
	const struct slab none = { DT_F32, 0, 3, NULL };
	struct slab slab = slab_new(DT_F32, 2, 3, false);
	struct values h = values_new(9, 0);

	(void)state;
	EACH_SIDE(s)
	{
		float *there = values_send(s, &h);
		void *x = slab_send(s, &slab);
		struct gram_args args = args_of(&none, NULL, there);

		s->ops->gram(s->stream, &args);
		args = args_of(&slab, x, there);
		args.first = 3;
		args.n = 0;
		s->ops->gram(s->stream, &args);
		values_check(s, &h, there, "no tokens");
		s->ops->memory_free(s->executor, x);
	}
	values_free(&h);
	free(slab.x);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(panels_are_within_their_bound),
		cmocka_unit_test(whole_numbers_are_exact),
		cmocka_unit_test(two_threads_give_the_same_bits),
		cmocka_unit_test(no_tokens_and_no_columns_write_nothing),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
