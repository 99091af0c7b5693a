/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: what DeepSeek-V4 needs between products, bit for bit against plain loops over
 * num/ on the executor of every backend: the mixing of streams (of low rank and by keys, too), keys
 * of pools, rotations of adjacent pairs, scores of experts that follow from the token.
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
#include "num/exp.h"
#include "num/softplus.h"
#include "support/executor_sides.h"

#define TOKENS	5
#define STREAMS MIX_MAX_STREAMS

/* A sum in 16 lanes, which are added pairwise. */
static float plain_dot(const float *x, const float *y, size_t n)
{
	float lanes[16] = { 0 };

	for (size_t i = 0; i < n; i++)
		lanes[i % 16] += x[i] * y[i];
	for (size_t step = 8; step > 0; step /= 2)
		for (size_t i = 0; i < step; i++)
			lanes[i] += lanes[i + step];
	return lanes[0];
}

static float plain_sigmoid(float x)
{
	return 1.0f / (1.0f + f32_exp_fine(-x));
}

static void plain_divide(float c[STREAMS][STREAMS], size_t n, float eps, bool rows)
{
	for (size_t i = 0; i < n; i++) {
		float sum = 0;

		for (size_t j = 0; j < n; j++)
			sum += rows ? c[i][j] : c[j][i];
		for (size_t j = 0; j < n; j++)
			*(rows ? &c[i][j] : &c[j][i]) /= sum + eps;
	}
}

static void plain_softmax(float *x, size_t n, float eps)
{
	float most = -INFINITY, sum = 0;

	for (size_t i = 0; i < n; i++)
		most = fmaxf(most, x[i]);
	for (size_t i = 0; i < n; i++)
		sum += x[i] = f32_exp_fine(x[i] - most);
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] / sum + eps;
}

/* The equations of struct mix_streams_args for a token. */
static void plain_begin(const struct mix_streams_args *a, size_t token, float *y, float *weights)
{
	size_t n = a->n_streams, n_values = n * a->n_cols;
	const float *x = a->streams + token * n_values;
	float norm = 1.0f / sqrtf(plain_dot(x, x, n_values) / (float)n_values + a->norm_eps);
	float m[MIX_PRODUCTS(STREAMS)], c[STREAMS][STREAMS];

	for (size_t i = 0; i < (weights ? MIX_PRODUCTS(n) : n); i++) {
		size_t part = i < n ? 0 : i < 2 * n ? 1 : 2;

		m[i] = norm * plain_dot(a->fn + i * n_values, x, n_values) * a->scale[part] +
		       a->base[i];
	}
	for (size_t col = 0; col < a->n_cols; col++) {
		float sum = (plain_sigmoid(m[0]) + a->eps) * x[col];

		for (size_t j = 1; j < n; j++)
			sum += (plain_sigmoid(m[j]) + a->eps) * x[j * a->n_cols + col];
		y[token * a->n_cols + col] = sum;
	}
	if (!weights)
		return;
	for (size_t i = 0; i < n; i++) {
		weights[token * (n + n * n) + i] = 2 * plain_sigmoid(m[n + i]);
		memcpy(c[i], &m[2 * n + i * n], n * sizeof **c);
		plain_softmax(c[i], n, a->eps);
	}
	plain_divide(c, n, a->eps, false);
	for (size_t round = 1; round < a->n_rounds; round++) {
		plain_divide(c, n, a->eps, true);
		plain_divide(c, n, a->eps, false);
	}
	for (size_t i = 0; i < n; i++)
		memcpy(weights + token * (n + n * n) + n + i * n, c[i], n * sizeof **c);
}

static void plain_end(const struct mix_streams_args *a, size_t token, float *out)
{
	size_t n = a->n_streams, n_weights = a->n_rounds ? n + n * n : n;
	const float *weights = a->weights + token * n_weights;
	const float *x = a->streams + token * n * a->n_cols;

	for (size_t j = 0; j < n; j++)
		for (size_t col = 0; col < a->n_cols; col++) {
			float sum = weights[j] * a->y[token * a->n_cols + col];

			for (size_t i = 0; i < n && a->n_rounds; i++)
				sum += weights[n + i * n + j] * x[i * a->n_cols + col];
			sum += a->n_rounds ? 0 : x[j * a->n_cols + col];
			out[(token * n + j) * a->n_cols + col] = sum;
		}
}

/* Each vector becomes y times the sigmoid of the root of its product with its key, with the sign of
 * the product. */
static void plain_gate(const struct mix_streams_args *a, size_t token, float *out)
{
	size_t n = a->n_streams, n_cols = a->n_cols;

	for (size_t j = 0; j < n; j++) {
		size_t at = (token * n + j) * n_cols;
		float c = plain_dot(a->streams + at, a->keys + at, n_cols) / sqrtf((float)n_cols);
		float root = copysignf(sqrtf(fmaxf(fabsf(c), 1e-6f)), c);

		for (size_t col = 0; col < n_cols; col++)
			out[at + col] =
				plain_sigmoid(c == 0 ? 0 : root) * a->y[token * n_cols + col];
	}
}

/* The arrays, by the order of the arguments. */
enum { STREAM, WEIGHTS, FN, BASE, SCALE, Y, N_ARRAYS };

static struct mix_streams_args pointed(struct mix_streams_args a, float *const *at, bool begins,
				       bool weighted)
{
	a.streams = at[STREAM];
	a.weights = weighted ? at[WEIGHTS] : NULL;
	a.fn = begins ? at[FN] : NULL;
	a.base = at[BASE];
	a.scale = at[SCALE];
	a.y = at[Y];
	return a;
}

static void mix_at(size_t n, size_t n_cols, size_t shift, bool begins, bool weighted)
{
	size_t n_weights = n + n * n;
	const struct mix_streams_args sizes = { .n_tokens = TOKENS,
						.n_streams = n,
						.n_cols = n_cols,
						.norm_eps = 1e-3f,
						.eps = 1e-2f,
						.n_rounds = 1 + n_cols % 4 };
	struct values v[N_ARRAYS] = { [STREAM] = values_new(TOKENS * n * n_cols, shift),
				      [WEIGHTS] = values_new(TOKENS * n_weights, 0),
				      [FN] = values_new(MIX_PRODUCTS(n) * n * n_cols, shift),
				      [BASE] = values_new(MIX_PRODUCTS(n), 0),
				      [SCALE] = values_new(3, 0),
				      [Y] = values_new(TOKENS * n_cols, shift) };
	float *given[N_ARRAYS], *there[N_ARRAYS];
	struct mix_streams_args args;

	for (size_t i = 0; i < v[FN].n; i++)
		values_set(&v[FN], i, v[FN].given[i] / sqrtf((float)(n * n_cols)) / 4);
	for (int i = 0; i < N_ARRAYS; i++)
		given[i] = v[i].given;
	args = pointed(sizes, given, begins, weighted);
	for (size_t t = 0; t < TOKENS; t++)
		if (begins)
			plain_begin(&args, t, v[Y].wanted, weighted ? v[WEIGHTS].wanted : NULL);
		else
			plain_end(&args, t, v[STREAM].wanted);
	EACH_SIDE(s)
	{
		for (int i = 0; i < N_ARRAYS; i++)
			there[i] = values_send(s, &v[i]);
		args = pointed(sizes, there, begins, weighted);
		s->ops->mix_streams(s->stream, &args);
		for (int i = 0; i < N_ARRAYS; i++)
			values_check(s, &v[i], there[i], begins ? "the begin" : "the end");
	}
	for (int i = 0; i < N_ARRAYS; i++)
		values_free(&v[i]);
}

static void end_at(size_t n, size_t n_cols, bool by_keys)
{
	const struct mix_streams_args sizes = { .n_tokens = TOKENS,
						.n_streams = n,
						.n_cols = n_cols };
	struct values x = values_new(TOKENS * n * n_cols, n % 2);
	struct values other = values_new(by_keys ? TOKENS * n * n_cols : TOKENS * n, n_cols % 2);
	struct values y = values_new(TOKENS * n_cols, 0);
	struct mix_streams_args args = sizes;

	for (size_t i = 0; by_keys && i < n_cols; i++)
		values_set(&other, i, 0); /* the first product is 0 */
	args.streams = x.given;
	args.y = y.given;
	args.weights = other.given;
	args.keys = other.given;
	for (size_t t = 0; t < TOKENS; t++)
		if (by_keys)
			plain_gate(&args, t, x.wanted);
		else
			plain_end(&args, t, x.wanted);
	EACH_SIDE(s)
	{
		float *streams = values_send(s, &x), *there = values_send(s, &other),
		      *values = values_send(s, &y);

		args = sizes;
		args.streams = streams;
		args.y = values;
		if (by_keys)
			args.keys = there;
		else
			args.weights = there;
		s->ops->mix_streams(s->stream, &args);
		values_check(s, &x, streams, by_keys ? "the gates" : "the end without rounds");
		values_check(s, &other, there, "what is read");
		values_check(s, &y, values, "what is read");
	}
	values_free(&x);
	values_free(&other);
	values_free(&y);
}

static void streams_without_rounds_and_by_keys_equal_plain_loops(void **state)
{
	static const size_t n_cols[] = { 1, 7, 16, 33, 64, 130, 1024 };

	(void)state;
	for (size_t i = 0; i < N_OF(n_cols) * STREAMS; i++) {
		end_at(i % STREAMS + 1, n_cols[i / STREAMS], false);
		end_at(i % STREAMS + 1, n_cols[i / STREAMS], true);
	}
}

static void streams_are_mixed_as_plain_loops_do(void **state)
{
	static const size_t n_cols[] = { 1, 7, 16, 33, 64, 130, 1024 };

	(void)state;
	for (size_t i = 0; i < N_OF(n_cols) * STREAMS; i++) {
		size_t n = i % STREAMS + 1, cols = n_cols[i / STREAMS];

		mix_at(n, cols, i % 2, true, true);
		mix_at(n, cols, i % 2, true, false);
		mix_at(n, cols, i % 2, false, true);
	}
}

/* --- pools --- */

/* The softmax of the slots of pool p in a column, times their values; or their mean. */
static float plain_pool(const struct convolve_args *a, size_t p, size_t col)
{
	size_t end = (p + 1) * a->pool, begin = end > a->width ? end - a->width : 0;
	float most = -INFINITY, total = 0, sum = 0;

	for (int round = 0; round < 2; round++)
		for (size_t t = begin; t < end; t++) {
			bool second = a->width > a->pool && t >= p * a->pool;
			size_t at = col + (second ? a->n_cols : 0);
			float score = 0;

			if (a->gates.data)
				score = a->gates.data[t * a->gates.stride + at] +
					a->weight.data[t % a->pool * a->weight.stride + at];
			if (round == 0) {
				most = score > most ? score : most;
				continue;
			}
			total += f32_exp(score - most);
			sum += f32_exp(score - most) * a->x.data[t * a->x.stride + at];
		}
	return sum / total;
}

/* parts 0: means. */
static void pools_at(size_t n_tokens, size_t pool, size_t parts, size_t n_cols, size_t more)
{
	bool gated = parts > 0;
	size_t stride = (gated ? parts : 1) * n_cols + more, y_stride = n_cols + more;
	size_t n_pools = n_tokens / pool;
	struct values x = values_new(n_tokens * stride, more),
		      y = values_new(n_pools * y_stride, 0),
		      gates = values_new(n_tokens * stride, 0),
		      weight = values_new(pool * stride, more);
	struct convolve_args args = { .x = { x.given, stride },
				      .gates = { gated ? gates.given : NULL, stride },
				      .weight = { gated ? weight.given : NULL, stride },
				      .width = (gated ? parts : 1) * pool,
				      .pool = pool,
				      .n_tokens = n_tokens,
				      .n_cols = n_cols };

	for (size_t p = 0; p < n_pools; p++)
		for (size_t c = 0; c < n_cols; c++)
			y.wanted[p * y_stride + c] = plain_pool(&args, p, c);
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *gates_there = values_send(s, &gates);
		float *weight_there = values_send(s, &weight), *y_there = values_send(s, &y);

		args.x.data = x_there;
		args.gates.data = gated ? gates_there : NULL;
		args.weight.data = gated ? weight_there : NULL;
		args.y = (struct rows_out){ y_there, y_stride };
		s->ops->convolve(s->stream, &args);
		values_check(s, &y, y_there, "pools");
		values_check(s, &x, x_there, "x");
		values_check(s, &gates, gates_there, "gates");
		values_check(s, &weight, weight_there, "weight");
	}
	values_free(&x);
	values_free(&y);
	values_free(&gates);
	values_free(&weight);
}

/* Of tokens that fill their last pool, and that do not; none is whole. */
static void pools_equal_plain_loops(void **state)
{
	static const size_t n_cols[] = { 1, 15, 16, 20, 33 };

	(void)state;
	for (size_t i = 0; i < N_OF(n_cols) * 36; i++)
		pools_at(i % 6 * 7 + 3, 1 + i % 4 * 2, i / 12 % 3, n_cols[i / 36], i % 2);
}

/* --- rotations --- */

static void turn_at(size_t n, size_t head_dim, size_t n_heads, bool back)
{
	size_t half = n / 2, stride = n_heads * head_dim;
	struct values x = values_new(TOKENS * stride, 0), angles = values_new(TOKENS * n, 0);

	for (size_t i = 0; i < TOKENS * n_heads * half; i++) {
		size_t token = i / half / n_heads;
		size_t at = (i / half + 1) * head_dim - n + i % half * 2;
		float c = angles.given[token * half + i % half];
		float s = angles.given[TOKENS * half + token * half + i % half];

		s = back ? -s : s;
		x.wanted[at] = x.given[at] * c - x.given[at + 1] * s;
		x.wanted[at + 1] = x.given[at + 1] * c + x.given[at] * s;
	}
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *angles_there = values_send(s, &angles);

		s->ops->rope(s->stream,
			     &(const struct rope_args){ .x = { x_there + head_dim - n, stride },
							.n_tokens = TOKENS,
							.n_heads = n_heads,
							.head_dim = head_dim,
							.cosines = angles_there,
							.sines = angles_there + TOKENS * half,
							.rope_dim = n,
							.adjacent = true,
							.back = back });
		values_check(s, &x, x_there, "adjacent pairs");
		values_check(s, &angles, angles_there, "angles");
	}
	values_free(&x);
	values_free(&angles);
}

static void last_adjacent_pairs_turn_and_turn_back(void **state)
{
	static const size_t turning[] = { 2, 4, 6, 8, 30, 64 };

	(void)state;
	for (size_t i = 0; i < N_OF(turning) * 8; i++)
		turn_at(turning[i / 8], turning[i / 8] + i % 4 * 3, 1 + i % 3, i / 4 % 2);
}

/* --- experts --- */

#define EXPERTS 11
#define TOP_K	3

/* The weights of given experts are of the square roots of softplus. */
static void given_experts_get_their_weights(void **state)
{
	struct values scores = values_new(2 * TOKENS * EXPERTS, 0),
		      weights = values_new(TOKENS * TOP_K, 0);
	uint32_t chosen[TOKENS * TOP_K], found[TOKENS * TOP_K];

	(void)state;
	for (size_t t = 0; t < TOKENS; t++) {
		float sum = 0;

		for (size_t i = 0; i < TOP_K; i++) {
			chosen[t * TOP_K + i] = (uint32_t)(t + 2 * i);
			sum += sqrtf(f32_softplus(scores.given[t * EXPERTS + t + 2 * i]));
		}
		for (size_t i = 0; i < TOP_K; i++)
			weights.wanted[t * TOP_K + i] =
				sqrtf(f32_softplus(scores.given[t * EXPERTS + t + 2 * i])) /
				(sum + 1e-20f) * 1.5f;
	}
	EACH_SIDE(s)
	{
		float *weights_there = values_send(s, &weights);
		struct route_args args = { .n_tokens = TOKENS,
					   .n_experts = EXPERTS,
					   .top_k = TOP_K,
					   .kind = ROUTE_SQRT_SOFTPLUS,
					   .norm_top_k = true,
					   .are_chosen = true,
					   .sum_eps = 1e-20f,
					   .scale = 1.5f,
					   .scores = values_send(s, &scores),
					   .chosen = side_put(s, chosen, sizeof chosen),
					   .weights = weights_there };

		s->ops->route(s->stream, &args);
		side_take(s, args.chosen, found, sizeof found);
		assert_memory_equal(found, chosen, sizeof found);
		values_check(s, &weights, weights_there, "weights");
		s->ops->memory_free(s->executor, args.scores - scores.shift);
	}
	values_free(&scores);
	values_free(&weights);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_are_mixed_as_plain_loops_do),
		cmocka_unit_test(streams_without_rounds_and_by_keys_equal_plain_loops),
		cmocka_unit_test(pools_equal_plain_loops),
		cmocka_unit_test(last_adjacent_pairs_turn_and_turn_back),
		cmocka_unit_test(given_experts_get_their_weights),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
