/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: the causal convolution and the gates of gated DeltaNet, bit for bit against
 * plain loops over num/, on the executor of every backend; and its scan, in chunks or not, near
 * plain loops that go step by step, and these near the recurrence of the paper (arXiv 2412.06464)
 * in double.
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
#include "num/softplus.h"
#include "support/executor_sides.h"

/* --- the convolution --- */

struct conv_size {
	size_t width, n_tokens, n_cols;
	enum activation activation;
};

static void convolve_at(struct conv_size size, size_t more, size_t shift, bool biased)
{
	size_t width = size.width, n = size.n_cols, stride = n + more;
	struct values x = values_new(size.n_tokens * stride, shift);
	struct values weight = values_new(width * (n + 4), 0), bias = values_new(n, 0);
	struct values y = values_new(size.n_tokens * stride, 0);

	for (size_t k = 0; k < size.n_tokens * n; k++) {
		size_t t = k / n, col = k % n;
		float sum = biased ? bias.given[col] : 0;

		for (size_t i = 0; i < width; i++)
			if (t + 1 + i >= width)
				sum += weight.given[i * (n + 4) + col] *
				       x.given[(t + 1 + i - width) * stride + col];
		y.wanted[t * stride + col] = activation_apply(size.activation, sum);
	}
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *weight_there = values_send(s, &weight),
		      *bias_there = values_send(s, &bias), *y_there = values_send(s, &y);

		s->ops->convolve(s->stream,
				 &(const struct convolve_args){ .activation = size.activation,
								.x = { x_there, stride },
								.weight = { weight_there, n + 4 },
								.bias = biased ? bias_there : NULL,
								.width = width,
								.n_tokens = size.n_tokens,
								.n_cols = n,
								.y = { y_there, stride } });
		values_check(s, &x, x_there, "what was convolved");
		values_check(s, &weight, weight_there, "a kernel");
		values_check(s, &bias, bias_there, "a bias");
		values_check(s, &y, y_there, "convolve");
	}
	values_free(&x);
	values_free(&weight);
	values_free(&bias);
	values_free(&y);
}

static void convolutions_equal_plain_loops(void **state)
{
	static const size_t widths[] = { 1, 2, 3, 4, 7 }, n_tokens[] = { 0, 1, 3, 4, 5, 33 };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) - 1; i++)
		for (size_t w = 0; w < N_OF(widths); w++)
			for (size_t t = 0; t < N_OF(n_tokens); t++)
				convolve_at((struct conv_size){ widths[w], n_tokens[t],
								edge_sizes[i],
								i % 2 ? ACT_SILU : ACT_NONE },
					    (i + w + t) % 5, (w + t) % 2, t % 2);
}

/* --- gates --- */

/* What they compute in double, to 4 ulp, and more where an exponent has an error itself. */
static void assert_near(float got, double wanted, double exponent_error)
{
	assert_true(fabs((double)got - wanted) <= (5e-7 + exponent_error) * fabs(wanted) + 1e-37);
}

static void set_rates(struct values *b)
{
	for (size_t k = 0; k < b->n; k++) {
		b->wanted[k] = sigmoid(b->given[k]);
		assert_near(b->wanted[k], 1 / (1 + exp(-(double)b->given[k])), 0);
	}
}

static void set_decays(struct values *a, const struct values *a_log, const struct values *bias,
		       size_t n_decays, float lower_bound)
{
	for (size_t k = 0; k < a->n; k++) {
		float rate = f32_exp(a_log->given[k % bias->n / n_decays]);
		float x = a->given[k] + bias->given[k % bias->n], step = f32_softplus(x);
		double sum = (double)x;

		assert_near(step, sum > 40 ? sum : log1p(exp(sum)), 0);
		a->wanted[k] =
			f32_exp(lower_bound < 0 ? lower_bound * sigmoid(rate * x) : -rate * step);
		if (lower_bound < 0)
			assert_near(a->wanted[k],
				    exp((double)lower_bound / (1 + exp(-(double)(rate * x)))),
				    6e-7 * fabs((double)lower_bound));
	}
}

static void gates_at(size_t n_heads, size_t n_decays, float lower_bound, size_t shift)
{
	size_t n_tokens = 3, n = n_heads * n_decays;
	struct values a = values_new(n_tokens * n, shift), b = values_new(n_tokens * n_heads, 0);
	struct values a_log = values_new(n_heads, 0), bias = values_new(n, 0);
	struct values keys = values_new(a.n, 0); /* q, k and v of the scan */

	values_set(&a, 0, 120);
	values_set(&a, n, -120);
	set_decays(&a, &a_log, &bias, n_decays, lower_bound);
	set_rates(&b);
	EACH_SIDE(s)
	{
		float *a_there = values_send(s, &a), *b_there = values_send(s, &b),
		      *log_there = values_send(s, &a_log), *bias_there = values_send(s, &bias),
		      *keys_there = values_send(s, &keys),
		      *y_there = side_memory_new(s, b.n * sizeof(float));
		struct delta_args args = { .a = a_there,
					   .b = b_there,
					   .a_log = log_there,
					   .dt_bias = bias_there,
					   .lower_bound = lower_bound,
					   .n_tokens = n_tokens,
					   .n_heads = n_heads,
					   .n_key_heads = n_heads,
					   .key_dim = n_decays,
					   .value_dim = 1,
					   .n_decays = n_decays,
					   .q = keys_there,
					   .k = keys_there,
					   .v = keys_there,
					   .y = y_there };

		args.scratch = side_memory_new(
			s, s->ops->scratch(&(const struct scratch_args){ .delta = &args }));
		s->ops->delta(s->stream, &args);
		values_check(s, &a, a_there, "decays");
		values_check(s, &b, b_there, "rates");
		values_check(s, &a_log, log_there, "A_log");
		values_check(s, &bias, bias_there, "dt_bias");
		values_check(s, &keys, keys_there, "keys");
		s->ops->memory_free(s->executor, y_there);
		s->ops->memory_free(s->executor, args.scratch);
	}
	values_free(&a);
	values_free(&b);
	values_free(&a_log);
	values_free(&bias);
	values_free(&keys);
}

static void gates_equal_num_and_are_near_double(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) - 1; i++) {
		gates_at(edge_sizes[i], 1, 0, i % 2);
		gates_at(edge_sizes[i], 1, -5, i % 2);
		if (edge_sizes[i] > DELTA_MAX_KEY_DIM)
			continue;
		gates_at(1 + i % 3, edge_sizes[i], 0, i % 2);
		gates_at(1 + i % 3, edge_sizes[i], -2.5f, i % 2);
	}
}

/* --- the scan --- */

/* The arrays of a scan, by the order of its arguments. */
enum { Q, K, V, A, B, Y, N_ARRAYS };

static float chains_sum(const float *state, size_t stride, const float *x, size_t n)
{
	float chains[4] = { 0 };

	for (size_t i = 0; i < n; i++)
		chains[i % 4] = fmaf(x[i], state[i * stride], chains[i % 4]);
	return (chains[0] + chains[2]) + (chains[1] + chains[3]);
}

static float lanes_product(const float *q, const float *k, size_t n)
{
	float lanes[16] = { 0 };

	for (size_t i = 0; i < n; i++)
		lanes[i % 16] += q[i] * k[i];
	return plain_lanes_sum(lanes);
}

/* One token of one head, by the words of the contract. */
static void plain_token(const struct delta_args *d, size_t head, size_t t, float *state, float *y)
{
	size_t key = (t * d->n_key_heads + head / (d->n_heads / d->n_key_heads)) * d->key_dim;
	size_t at = t * d->n_heads + head;
	const float *q = d->q + key, *k = d->k + key;
	bool features = d->n_decays > 1;
	float decay = features ? 1 : d->a[at], product = lanes_product(q, k, d->key_dim);

	for (size_t i = 0; features && i < d->key_dim * d->value_dim; i++)
		state[i] *= d->a[at * d->key_dim + i / d->value_dim];
	for (size_t c = 0; c < d->value_dim; c++) {
		float *s = state + c;
		float read = t ? chains_sum(s, d->value_dim, k, d->key_dim) : 0;
		float out = t ? chains_sum(s, d->value_dim, q, d->key_dim) : 0;
		float change = d->b[at] * (d->v[at * d->value_dim + c] - decay * read);

		y[at * d->value_dim + c] = decay * out + product * change;
		for (size_t i = 0; i < d->key_dim; i++, s += d->value_dim)
			*s = fmaf(k[i], change, decay * *s);
	}
}

/* The same as the paper writes it, in double; the error of y must be small beside its largest
 * value. */
static void assert_near_paper(const struct delta_args *d, size_t head, const float *y)
{
	size_t n = d->value_dim;
	double *state = calloc(d->key_dim * n, sizeof *state), largest = 0, error = 0;

	for (size_t t = 0; t < d->n_tokens; t++) {
		size_t key =
			(t * d->n_key_heads + head / (d->n_heads / d->n_key_heads)) * d->key_dim;
		size_t at = t * d->n_heads + head;

		for (size_t c = 0; c < n; c++) {
			double read = 0, out = 0, change;

			for (size_t i = 0; i < d->key_dim; i++) {
				state[i * n + c] *=
					(double)d->a[at * d->n_decays + i % d->n_decays];
				read += state[i * n + c] * (double)d->k[key + i];
			}
			change = (double)d->b[at] * ((double)d->v[at * n + c] - read);
			for (size_t i = 0; i < d->key_dim; i++) {
				state[i * n + c] += (double)d->k[key + i] * change;
				out += state[i * n + c] * (double)d->q[key + i];
			}
			largest = fmax(largest, fabs(out));
			error = fmax(error, fabs(out - (double)y[at * n + c]));
		}
	}
	assert_true(error <= 2e-6 * largest);
	free(state);
}

static size_t array_size(const struct delta_args *d, int array)
{
	size_t keys = d->n_tokens * d->n_key_heads * d->key_dim;
	size_t heads = d->n_tokens * d->n_heads;

	return array <= K   ? keys
	       : array == A ? heads * d->n_decays
	       : array == B ? heads
			    : heads * d->value_dim;
}

/* Keys and queries shorter than 1, decays and rates from 0 to 1.  In long sequences decays are near
 * 1, so that a chunk of tokens does not forget what came before it. */
static void values_of_layers(struct values *v, const struct delta_args *d, int array)
{
	for (size_t i = 0; i < v->n; i++)
		values_set(v, i,
			   array <= K ? v->given[i] / (4 * sqrtf((float)d->key_dim))
			   : array == A && d->n_tokens > 100 ? 0.98f + v->given[i] / 200
			   : array == A || array == B	     ? 0.5f + v->given[i] / 8
							     : v->given[i]);
}

/* sizes: tokens, heads, key heads, key_dim, value_dim.  features: decays are of features. */
static void scan_at(const size_t sizes[5], bool features, size_t shift)
{
	struct delta_args d = { .n_tokens = sizes[0],
				.n_heads = sizes[1],
				.n_key_heads = sizes[2],
				.key_dim = sizes[3],
				.value_dim = sizes[4],
				.n_decays = features ? sizes[3] : 1 };
	struct values v[N_ARRAYS];
	float *state;

	for (int i = 0; i < N_ARRAYS; i++) {
		v[i] = values_new(array_size(&d, i), i < Y ? shift : 0);
		values_of_layers(&v[i], &d, i);
	}
	d.q = v[Q].given;
	d.k = v[K].given;
	d.v = v[V].given;
	d.a = v[A].given;
	d.b = v[B].given;
	for (size_t head = 0; head < d.n_heads; head++) {
		state = calloc(d.key_dim * d.value_dim, sizeof *state);
		for (size_t t = 0; t < d.n_tokens; t++)
			plain_token(&d, head, t, state, v[Y].wanted);
		assert_near_paper(&d, head, v[Y].wanted);
		free(state);
	}
	EACH_SIDE(s)
	{
		struct delta_args there = d;
		float *at[N_ARRAYS];

		for (int i = 0; i < N_ARRAYS; i++)
			at[i] = values_send(s, &v[i]);
		there.q = at[Q];
		there.k = at[K];
		there.v = at[V];
		there.a = at[A];
		there.b = at[B];
		there.y = at[Y];
		there.scratch = side_memory_new(
			s, s->ops->scratch(&(const struct scratch_args){ .delta = &there }));
		s->ops->delta(s->stream, &there);
		s->ops->delta(s->stream, &there); /* from 0, whatever scratch holds */
		for (int i = 0; i < Y; i++)
			values_check(s, &v[i], at[i], "what was scanned");
		values_check_near(s, &v[Y], at[Y], "delta");
		s->ops->memory_free(s->executor, there.scratch);
	}
	for (int i = 0; i < N_ARRAYS; i++)
		values_free(&v[i]);
}

static void scans_are_near_plain_loops_and_these_near_the_paper(void **state)
{
	static const size_t sizes[][5] = {
		{ 1, 1, 1, 1, 1 },    { 2, 1, 1, 1, 2 },     { 3, 2, 1, 2, 3 },
		{ 5, 2, 2, 3, 5 },    { 4, 6, 2, 4, 17 },    { 9, 3, 3, 5, 16 },
		{ 7, 4, 1, 15, 31 },  { 6, 4, 2, 16, 33 },   { 33, 2, 1, 17, 32 },
		{ 3, 1, 1, 63, 15 },  { 3, 1, 1, 64, 64 },   { 3, 1, 1, 65, 65 },
		{ 3, 2, 1, 127, 7 },  { 65, 2, 1, 128, 40 }, { 3, 1, 1, 129, 9 },
		{ 2, 1, 1, 255, 17 }, { 3, 1, 1, 256, 4 },   { 0, 2, 1, 4, 4 },
		{ 63, 2, 1, 9, 65 },  { 64, 1, 1, 16, 16 },  { 130, 2, 2, 33, 70 },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++) {
		scan_at(sizes[i], false, i % 2);
		scan_at(sizes[i], true, i % 2);
	}
	for (int features = 0; features < 2 && !sides_small; features++)
		scan_at((const size_t[]){ 300, 4, 2, 128, 128 }, features, 0);
}

/* --- norms without a weight --- */

static void norms_without_a_weight_multiply_by_the_offset(void **state)
{
	static const size_t more_sizes[] = { 512, 513, 2049 };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) + N_OF(more_sizes); i++) {
		size_t n_edge = N_OF(edge_sizes);
		size_t n = i < n_edge ? edge_sizes[i] : more_sizes[i - n_edge];
		struct values x = values_new(3 * n, i % 2);

		for (size_t r = 0; r < 3; r++) {
			float squares = lanes_product(x.given + r * n, x.given + r * n, n);
			float factor = 1.0f / sqrtf(squares / (float)n + 1e-6f);

			for (size_t k = r * n; k < (r + 1) * n; k++)
				x.wanted[k] = x.given[k] * factor * 0.25f;
		}
		EACH_SIDE(s)
		{
			float *there = values_send(s, &x);

			s->ops->rms_norm(s->stream,
					 &(const struct rms_norm_args){ .x = { there, n },
									.offset = 0.25f,
									.eps = 1e-6f,
									.n_rows = 3,
									.n_cols = n,
									.y = { there, n } });
			values_check(s, &x, there, "rms_norm without a weight");
		}
		values_free(&x);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convolutions_equal_plain_loops),
		cmocka_unit_test(gates_equal_num_and_are_near_double),
		cmocka_unit_test(scans_are_near_plain_loops_and_these_near_the_paper),
		cmocka_unit_test(norms_without_a_weight_multiply_by_the_offset),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
