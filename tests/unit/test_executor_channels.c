/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: the scan of Mamba-1, bit for bit against plain loops over num/ on the
 * executor of every backend, and near the same sums without a state.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/softplus.h"
#include "support/executor_sides.h"

/* The arrays of a scan, by the order of its arguments. */
enum { X, STEPS, B, C, A_LOG, SKIP, Y, N_ARRAYS };

/* Rows have gaps of `more` elements. */
struct setup {
	struct scan_channels_args args;
	struct values values[N_ARRAYS];
};

static void args_point(struct scan_channels_args *args, float *const *at)
{
	args->x.data = at[X];
	args->steps.data = at[STEPS];
	args->b.data = at[B];
	args->c.data = at[C];
	args->a_log = at[A_LOG];
	args->skip = at[SKIP];
	args->y.data = at[Y];
}

static struct setup setup_new(struct scan_channels_args args, size_t more, size_t shift)
{
	size_t n = args.n_tokens, wide = args.n_channels + more, narrow = args.state_size + more;
	struct setup s = { .values = { [X] = values_new(n * wide, shift),
				       [STEPS] = values_new(n * wide, 0),
				       [B] = values_new(n * narrow, shift),
				       [C] = values_new(n * narrow, 0),
				       [A_LOG] = values_new(args.state_size * args.n_channels, 0),
				       [SKIP] = values_new(args.n_channels, 0),
				       [Y] = values_new(n * wide, shift) } };
	float *given[N_ARRAYS];

	for (size_t i = 0; i < s.values[A_LOG].n; i++)
		values_set(&s.values[A_LOG], i, s.values[A_LOG].given[i] / 2);
	for (int i = 0; i < N_ARRAYS; i++)
		given[i] = i == Y ? s.values[i].wanted : s.values[i].given;
	args.x.stride = args.steps.stride = args.y.stride = wide;
	args.b.stride = args.c.stride = narrow;
	args_point(&args, given);
	s.args = args;
	return s;
}

static void setup_free(struct setup *s)
{
	for (int i = 0; i < N_ARRAYS; i++)
		values_free(&s->values[i]);
}

static void plain_channel(const struct scan_channels_args *a, size_t col)
{
	float state[SCAN_CHANNELS_MAX_STATE] = { 0 };

	for (size_t t = 0; t < a->n_tokens; t++) {
		float x = a->x.data[t * a->x.stride + col], sum = 0;
		float d = f32_softplus(a->steps.data[t * a->steps.stride + col]);

		for (size_t n = 0; n < a->state_size; n++) {
			float decay = f32_exp(d * -f32_exp(a->a_log[n * a->n_channels + col]));

			state[n] = decay * state[n] + d * x * a->b.data[t * a->b.stride + n];
			sum += state[n] * a->c.data[t * a->c.stride + n];
		}
		a->y.data[t * a->y.stride + col] = sum + a->skip[col] * x;
	}
}

static void plain_scan(const struct scan_channels_args *a)
{
	for (size_t col = 0; col < a->n_channels; col++)
		plain_channel(a, col);
}

static void scan_at(const struct scan_channels_args *sizes, size_t more, size_t shift)
{
	struct setup setup = setup_new(*sizes, more, shift);

	plain_scan(&setup.args);
	EACH_SIDE(s)
	{
		struct scan_channels_args args = setup.args;
		float *there[N_ARRAYS];

		for (int i = 0; i < N_ARRAYS; i++)
			there[i] = values_send(s, &setup.values[i]);
		args_point(&args, there);
		s->ops->scan_channels(s->stream, &args);
		for (int i = 0; i < N_ARRAYS; i++)
			values_check(s, &setup.values[i], there[i],
				     i == Y ? "scan_channels" : "what a scan reads");
	}
	setup_free(&setup);
}

/* Channels and states below, at and above vectors and blocks of threads. */
static void scans_equal_plain_loops(void **state)
{
	static const struct scan_channels_args sizes[] = {
		{ .n_tokens = 1, .n_channels = 1, .state_size = 1 },
		{ .n_tokens = 7, .n_channels = 5, .state_size = 3 },
		{ .n_tokens = 9, .n_channels = 16, .state_size = 15 },
		{ .n_tokens = 40, .n_channels = 17, .state_size = 16 },
		{ .n_tokens = 5, .n_channels = 31, .state_size = 17 },
		{ .n_tokens = 3, .n_channels = 257, .state_size = 4 },
		{ .n_tokens = 3, .n_channels = 33, .state_size = SCAN_CHANNELS_MAX_STATE },
		{ .n_tokens = 0, .n_channels = 3, .state_size = 2 },
		{ .n_tokens = 2, .n_channels = 0, .state_size = 2 },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++)
		for (size_t more = 0; more <= 4; more += 2)
			scan_at(&sizes[i], more, i % 2);
}

/* y(t) = skip x(t) + sum over s <= t and n of c(t) b(s) d(s) x(s) exp(-exp(a_log) (d(s + 1) + ... +
 * d(t))), in fp64. */
static double sum_value(const struct scan_channels_args *a, size_t t, size_t col)
{
	const float *x = a->x.data + col, *c = a->c.data + t * a->c.stride;
	double sum = (double)a->skip[col] * (double)x[t * a->x.stride], after = 0;

	for (size_t s = t + 1; s-- > 0;) {
		double d = log1p(exp((double)a->steps.data[s * a->steps.stride + col]));
		const float *b = a->b.data + s * a->b.stride;

		for (size_t n = 0; n < a->state_size; n++) {
			double rate = exp((double)a->a_log[n * a->n_channels + col]);

			sum += (double)c[n] * (double)b[n] * d * (double)x[s * a->x.stride] *
			       exp(-rate * after);
		}
		after += d;
	}
	return sum;
}

static void scans_are_near_sums_without_a_state(void **state)
{
	struct setup setup = setup_new(
		(struct scan_channels_args){ .n_tokens = 60, .n_channels = 7, .state_size = 16 }, 1,
		0);
	const struct scan_channels_args *a = &setup.args;
	double squares = 0, errors = 0;

	(void)state;
	plain_scan(a);
	for (size_t i = 0; i < a->n_tokens * a->n_channels; i++) {
		size_t t = i / a->n_channels, col = i % a->n_channels;
		double wanted = sum_value(a, t, col);
		double error = (double)a->y.data[t * a->y.stride + col] - wanted;

		squares += wanted * wanted;
		errors += error * error;
	}
	assert_true(squares > 0 && sqrt(errors / squares) < 1e-6);
	setup_free(&setup);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scans_equal_plain_loops),
		cmocka_unit_test(scans_are_near_sums_without_a_state),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
