/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: operations that take the statistics of what they read and write, and round
 * what a product takes next, bit for bit against plain loops, on the executor of every backend.
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
#include "support/executor_sides.h"

/* Where a rounded result goes. */
enum into { AS_VALUES, AS_CODES, AS_BOTH, N_INTO };

static const struct value_stats before = { .n_nonfinite = 3, .amax = 1.5f };

/* A rounded result (n_rows, n), with the stride of its values. */
struct result {
	struct values y;
	uint16_t *codes;
	struct value_stats stats;
	size_t n_rows, n, stride;
	enum into into;
};

static struct result result_new(size_t n_rows, size_t n, size_t stride, enum into into)
{
	return (struct result){ .y = values_new(n_rows * stride, 0),
				.codes = host_memory_new(n_rows * n * sizeof(uint16_t)),
				.stats = before,
				.n_rows = n_rows,
				.n = n,
				.stride = stride,
				.into = into };
}

static void result_free(struct result *r)
{
	values_free(&r->y);
	free(r->codes);
}

/* Rounds what is wanted, in r->y.wanted. */
static void result_round(struct result *r)
{
	for (size_t i = 0; i < r->n_rows * r->n; i++) {
		float *v = &r->y.wanted[i / r->n * r->stride + i % r->n];

		r->codes[i] = bf16_from_f32(*v);
		*v = bf16_to_f32(r->codes[i]);
		stats_raise(&r->stats, v, 1);
		if (r->into == AS_CODES)
			*v = r->y.given[i / r->n * r->stride + i % r->n];
	}
}

/* The result on a side. */
struct result_there {
	float *values;
	struct rows_out y;
	struct rounded_out rounded;
};

static struct result_there result_send(const struct side *s, const struct result *r)
{
	size_t size = r->n_rows * r->n * sizeof(uint16_t);
	struct result_there there = { .values = values_send(s, &r->y) };

	there.y = (struct rows_out){ r->into == AS_CODES ? NULL : there.values, r->stride };
	there.rounded.stats = side_put(s, &before, sizeof before);
	there.rounded.codes = r->into == AS_VALUES ? NULL : side_memory_new(s, size);
	return there;
}

static void result_check(const struct side *s, const struct result *r,
			 const struct result_there *there, const char *what)
{
	size_t size = r->n_rows * r->n * sizeof(uint16_t);
	uint16_t *codes = host_memory_new(size);

	values_check(s, &r->y, there->values, what);
	stats_back(s, &r->stats, there->rounded.stats);
	if (there->rounded.codes) {
		side_take(s, there->rounded.codes, codes, size);
		assert_memory_equal(codes, r->codes, size);
	}
	free(codes);
}

/* The stats before an operation, on the side. */
static void *stats_send(const struct side *s)
{
	return side_put(s, &before, sizeof before);
}

static void round_at(size_t n, size_t shift, enum into into)
{
	struct values x = values_new(n, shift);
	struct result y = result_new(1, n, n, into);

	specials_put(&x, 7);
	memcpy(y.y.wanted, x.given, n * sizeof(float));
	result_round(&y);
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x);
		const struct result_there there = result_send(s, &y);

		s->ops->round(s->stream, &(const struct round_args){ .x = x_there,
								     .n = n,
								     .y = there.y.data,
								     .rounded = there.rounded });
		values_check(s, &x, x_there, "what was rounded");
		result_check(s, &y, &there, "round");
	}
	values_free(&x);
	result_free(&y);
}

static void add_at(size_t n, size_t shift)
{
	struct values x = values_new(n, shift), y = values_new(n, 0);
	struct value_stats wanted = before;

	specials_put(&y, 5);
	for (size_t i = 0; i < n; i++)
		x.wanted[i] += y.given[i];
	stats_raise(&wanted, y.given, n);
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *y_there = values_send(s, &y);
		void *stats = stats_send(s);

		s->ops->add(s->stream, &(const struct add_args){ x_there, y_there, 1, n, stats });
		values_check(s, &x, x_there, "add");
		values_check(s, &y, y_there, "what was added");
		stats_back(s, &wanted, stats);
	}
	values_free(&x);
	values_free(&y);
}

/* The gates of one matrix have the same stats, of two matrices others. */
static void gate_at(size_t n_rows, size_t n, size_t more, enum into into)
{
	size_t stride = 2 * n + more;
	float limit = n % 2 ? 0.375f : INFINITY;
	struct values x = values_new(n_rows * stride, 0);
	struct result y = result_new(n_rows, n, n + more, into);
	struct value_stats gates = before, ups = before;

	specials_put(&x, 11);
	for (size_t i = 0; i < n_rows * n; i++) {
		const float *at = x.given + i / n * stride + i % n;

		stats_raise(&gates, at, 1);
		stats_raise(&ups, at + n, 1);
		float gate = activation_apply(ACT_SILU, at[0]), up = at[n];

		gate = gate > limit ? limit : gate;
		up = fabsf(up) > limit ? copysignf(limit, up) : up;
		y.y.wanted[i / n * (n + more) + i % n] = gate * up;
	}
	result_round(&y);
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x);
		const struct result_there there = result_send(s, &y);
		void *gate_stats = stats_send(s), *up_stats = stats_send(s);

		s->ops->gate(s->stream, &(const struct gate_args){ .activation = ACT_SILU,
								   .limit = limit,
								   .gate = { x_there, stride },
								   .up = { x_there + n, stride },
								   .n_rows = n_rows,
								   .n_cols = n,
								   .gate_stats = gate_stats,
								   .up_stats = up_stats,
								   .y = there.y,
								   .rounded = there.rounded });
		values_check(s, &x, x_there, "gates");
		result_check(s, &y, &there, "gate");
		stats_back(s, &gates, gate_stats);
		stats_back(s, &ups, up_stats);
	}
	values_free(&x);
	result_free(&y);
}

/* A row of RMSNorm, or of LayerNorm. */
static void plain_norm(const float *x, const float *weight, bool centered, size_t n, float *y)
{
	float sums[16] = { 0 }, squares[16] = { 0 }, mean = 0, factor;

	for (size_t i = 0; i < n; i++)
		sums[i % 16] += x[i];
	if (centered)
		mean = plain_lanes_sum(sums) / (float)n;
	for (size_t i = 0; i < n; i++)
		squares[i % 16] += (x[i] - mean) * (x[i] - mean);
	factor = 1.0f / sqrtf(plain_lanes_sum(squares) / (float)n + 1e-5f);
	for (size_t i = 0; i < n; i++)
		y[i] = (x[i] - mean) * factor * weight[i];
}

static void norm_at(size_t n_rows, size_t n, size_t more, bool centered, enum into into)
{
	struct values x = values_new(n_rows * (n + more), 0), weight = values_new(n, 0),
		      add = values_new(n_rows * n, 0);
	struct result y = result_new(n_rows, n, n + more, into);
	struct value_stats adds = before;

	stats_raise(&adds, add.given, n_rows * n);
	for (size_t r = 0; r < n_rows; r++) {
		for (size_t i = 0; i < n; i++)
			x.wanted[r * (n + more) + i] += add.given[r * n + i];
		plain_norm(x.wanted + r * (n + more), weight.given, centered, n,
			   y.y.wanted + r * (n + more));
	}
	result_round(&y);
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *add_there = values_send(s, &add);
		float *weight_there = values_send(s, &weight);
		const struct result_there there = result_send(s, &y);
		void *stats = stats_send(s);
		const struct rms_norm_args args = { .centered = centered,
						    .x = { x_there, n + more },
						    .sum = x_there,
						    .add = add_there,
						    .add_stats = stats,
						    .weight = weight_there,
						    .eps = 1e-5f,
						    .n_rows = n_rows,
						    .n_cols = n,
						    .y = there.y,
						    .rounded = there.rounded };

		s->ops->rms_norm(s->stream, &args);
		values_check(s, &x, x_there, "the sum before a norm");
		values_check(s, &add, add_there, "what was added");
		values_check(s, &weight, weight_there, "a weight");
		result_check(s, &y, &there, "rms_norm");
		stats_back(s, &adds, stats);
	}
	values_free(&x);
	values_free(&weight);
	values_free(&add);
	result_free(&y);
}

static void rope_at(size_t head_dim, size_t n_heads, size_t more)
{
	size_t half = head_dim / 2, n_tokens = 5, n = n_heads * head_dim, stride = n + more;
	struct values x = values_new(n_tokens * stride, 0),
		      angles = values_new(n_tokens * head_dim, 0);
	struct value_stats befores = before, afters = before;

	for (size_t i = 0; i < n_tokens * n_heads * half; i++) {
		size_t token = i / half / n_heads;
		size_t a = token * stride + i / half % n_heads * head_dim + i % half, b = a + half;
		float c = angles.given[token * half + i % half];
		float s = angles.given[(n_tokens + token) * half + i % half];

		x.wanted[a] = x.given[a] * c - x.given[b] * s;
		x.wanted[b] = x.given[b] * c + x.given[a] * s;
	}
	for (size_t t = 0; t < n_tokens; t++) {
		stats_raise(&befores, x.given + t * stride, n);
		stats_raise(&afters, x.wanted + t * stride, n);
	}
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *angles_there = values_send(s, &angles);
		void *stats[] = { stats_send(s), stats_send(s) };
		const struct rope_args args = { .x = { x_there, stride },
						.n_tokens = n_tokens,
						.n_heads = n_heads,
						.head_dim = head_dim,
						.cosines = angles_there,
						.sines = angles_there + n_tokens * half,
						.rope_dim = head_dim,
						.before = stats[0],
						.after = stats[1] };

		s->ops->rope(s->stream, &args);
		values_check(s, &x, x_there, "rope");
		values_check(s, &angles, angles_there, "angles");
		stats_back(s, &befores, stats[0]);
		stats_back(s, &afters, stats[1]);
	}
	values_free(&x);
	values_free(&angles);
}

static void roundings_equal_plain_loops(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * N_INTO; i++)
		round_at(edge_sizes[i / N_INTO], i % 2, (enum into)(i % N_INTO));
	round_at(20000, 0, AS_BOTH);
}

static void sums_equal_plain_loops(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 2; i++)
		add_at(edge_sizes[i / 2], i % 2);
	add_at(20000, 0);
}

static void gates_equal_plain_loops(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * N_INTO; i++)
		gate_at(1 + i % 4, edge_sizes[i / N_INTO], i % 5, (enum into)(i % N_INTO));
	gate_at(5, 4000, 0, AS_CODES);
	gate_at(270, 4100, 0, AS_BOTH); /* more than a GPU's threads take at once */
}

static void norms_equal_plain_loops(void **state)
{
	static const size_t more_sizes[] = { 512, 513, 2048, 2049, 5000 };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * N_INTO; i++)
		norm_at(1 + i % 4, edge_sizes[i / N_INTO], i % 5, i % 2, (enum into)(i % N_INTO));
	for (size_t i = 0; i < N_OF(more_sizes); i++)
		norm_at(3, more_sizes[i], 0, i % 2, AS_BOTH);
}

static void rotations_equal_plain_loops(void **state)
{
	static const size_t sizes[] = { 2, 4, 6, 8, 30, 64, 128 };

	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 2; i++)
		rope_at(sizes[i / 2], 1 + i % 4, i % 3 * 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roundings_equal_plain_loops),
		cmocka_unit_test(sums_equal_plain_loops),
		cmocka_unit_test(gates_equal_plain_loops),
		cmocka_unit_test(norms_equal_plain_loops),
		cmocka_unit_test(rotations_equal_plain_loops),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
