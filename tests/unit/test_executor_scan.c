/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: the scan of Mamba-2 on the executor of every backend, in chunks or not, near
 * plain loops over num/ that go step by step, and these near the same sums without a state.
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

/* Rows have gaps of `more` elements; b, c and the steps lie apart. */
struct setup {
	struct scan_args args;
	struct values x, b, c, steps, step_bias, a_log, skip, y;
};

static struct setup setup_new(struct scan_args args, size_t more, size_t shift)
{
	size_t n = args.n_tokens, width = args.n_heads * args.head_dim + more;
	size_t group = args.n_groups * args.state_size + more;
	struct setup s = { .x = values_new(n * width, shift),
			   .b = values_new(n * group, shift),
			   .c = values_new(n * group, 0),
			   .steps = values_new(n * (args.n_heads + more), shift),
			   .step_bias = values_new(args.n_heads, 0),
			   .a_log = values_new(args.n_heads, 0),
			   .skip = values_new(args.n_heads, 0),
			   .y = values_new(n * width, shift) };

	for (size_t i = 0; i < args.n_heads; i++)
		values_set(&s.a_log, i, s.a_log.given[i] / 2);
	args.x = (struct rows_in){ s.x.given, width };
	args.b = (struct rows_in){ s.b.given, group };
	args.c = (struct rows_in){ s.c.given, group };
	args.steps = (struct rows_in){ s.steps.given, args.n_heads + more };
	args.step_bias = s.step_bias.given;
	args.a_log = s.a_log.given;
	args.skip = s.skip.given;
	args.y = (struct rows_out){ s.y.wanted, width };
	s.args = args;
	return s;
}

static void setup_free(struct setup *s)
{
	struct values *all[] = { &s->x,		&s->b,	   &s->c,    &s->steps,
				 &s->step_bias, &s->a_log, &s->skip, &s->y };

	for (size_t i = 0; i < N_OF(all); i++)
		values_free(all[i]);
}

static float plain_step(const struct scan_args *a, size_t t, size_t head)
{
	float d = f32_softplus(a->steps.data[t * a->steps.stride + head] + a->step_bias[head]);

	d = d < a->step_min ? a->step_min : d;
	return d > a->step_max ? a->step_max : d;
}

/* One row of the state of one head: args->y of all tokens. */
static void plain_row(const struct scan_args *a, size_t head, size_t row, float *state)
{
	size_t group = head / (a->n_heads / a->n_groups) * a->state_size;
	size_t col = head * a->head_dim + row;

	memset(state, 0, a->state_size * sizeof *state);
	for (size_t t = 0; t < a->n_tokens; t++) {
		const float *b = a->b.data + t * a->b.stride + group;
		const float *c = a->c.data + t * a->c.stride + group;
		float x = a->x.data[t * a->x.stride + col], d = plain_step(a, t, head);
		float decay = f32_exp(d * -f32_exp(a->a_log[head])), lanes[16] = { 0 };

		for (size_t n = 0; n < a->state_size; n++) {
			state[n] = fmaf(decay, state[n], d * x * b[n]);
			lanes[n % 16] = fmaf(state[n], c[n], lanes[n % 16]);
		}
		a->y.data[t * a->y.stride + col] = plain_lanes_sum(lanes) + a->skip[head] * x;
	}
}

static void plain_scan(const struct scan_args *a)
{
	float *state = host_memory_new(a->state_size * sizeof *state);

	for (size_t head = 0; head < a->n_heads; head++)
		for (size_t row = 0; row < a->head_dim; row++)
			plain_row(a, head, row, state);
	free(state);
}

static void check_there(const struct side *s, const struct setup *setup)
{
	const struct values *const values[] = { &setup->x,     &setup->b,	  &setup->c,
						&setup->steps, &setup->step_bias, &setup->a_log,
						&setup->skip,  &setup->y };
	struct scan_args args = setup->args;
	float *there[N_OF(values)];

	for (size_t i = 0; i < N_OF(values); i++)
		there[i] = values_send(s, values[i]);
	args.x.data = there[0];
	args.b.data = there[1];
	args.c.data = there[2];
	args.steps.data = there[3];
	args.step_bias = there[4];
	args.a_log = there[5];
	args.skip = there[6];
	args.y.data = there[7];
	args.scratch =
		side_memory_new(s, s->ops->scratch(&(const struct scratch_args){ .scan = &args }));
	s->ops->scan(s->stream, &args);
	s->ops->scan(s->stream, &args); /* begins with a state of 0, whatever scratch holds */
	side_wait(s);
	for (size_t i = 0; i < N_OF(values); i++)
		(i < 7 ? values_check : values_check_near)(s, values[i], there[i],
							   i < 7 ? "what a scan reads" : "scan");
	s->ops->memory_free(s->executor, args.scratch);
}

static void scan_at(const struct scan_args *args, size_t more, size_t shift)
{
	struct setup setup = setup_new(*args, more, shift);

	plain_scan(&setup.args);
	EACH_SIDE(s)
	check_there(s, &setup);
	setup_free(&setup);
}

/* Rows and states below, at and above vectors and blocks of threads. */
static const struct scan_args sizes[] = {
	{ .n_tokens = 1, .n_heads = 1, .head_dim = 1, .n_groups = 1, .state_size = 1 },
	{ .n_tokens = 7, .n_heads = 2, .head_dim = 5, .n_groups = 2, .state_size = 3 },
	{ .n_tokens = 9, .n_heads = 6, .head_dim = 16, .n_groups = 3, .state_size = 16 },
	{ .n_tokens = 40, .n_heads = 3, .head_dim = 17, .n_groups = 1, .state_size = 17 },
	{ .n_tokens = 20, .n_heads = 18, .head_dim = 31, .n_groups = 2, .state_size = 33 },
	{ .n_tokens = 5, .n_heads = 2, .head_dim = 64, .n_groups = 1, .state_size = 128 },
	{ .n_tokens = 63, .n_heads = 2, .head_dim = 65, .n_groups = 2, .state_size = 7 },
	{ .n_tokens = 64, .n_heads = 1, .head_dim = 3, .n_groups = 1, .state_size = 16 },
	{ .n_tokens = 65, .n_heads = 4, .head_dim = 16, .n_groups = 2, .state_size = 31 },
	{ .n_tokens = 300, .n_heads = 2, .head_dim = 130, .n_groups = 1, .state_size = 20 },
	{ .n_tokens = 3, .n_heads = 1, .head_dim = 8, .n_groups = 1, .state_size = 257 },
	{ .n_tokens = 2, .n_heads = 1, .head_dim = 3, .n_groups = 1, .state_size = 1000 },
	{ .n_tokens = 2, .n_heads = 1, .head_dim = 2, .n_groups = 1, .state_size = SCAN_MAX_STATE },
};

static void scans_are_near_plain_loops(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++) {
		struct scan_args args = sizes[i];

		args.step_max = INFINITY;
		scan_at(&args, i % 3, i % 2);
		args.step_min = 0.2f; /* some steps are smaller, some are larger */
		args.step_max = 2.5f;
		scan_at(&args, (i + 1) % 3 * 4, 0);
	}
}

/* The dual form: y(t) = skip x(t) + sum over s <= t of (c(t) b(s)) d(s) x(s) times the product of
 * the decays after s, in fp64. */
static double dual_value(const struct scan_args *a, size_t t, size_t head, size_t row)
{
	size_t group = head / (a->n_heads / a->n_groups) * a->state_size;
	const float *c = a->c.data + t * a->c.stride + group;
	const float *x = a->x.data + head * a->head_dim + row;
	double decay = 1, sum = (double)a->skip[head] * (double)x[t * a->x.stride];

	for (size_t s = t + 1; s-- > 0;) {
		const float *b = a->b.data + s * a->b.stride + group;
		double bias = (double)a->step_bias[head], product = 0, d;

		d = log1p(exp((double)a->steps.data[s * a->steps.stride + head] + bias));
		for (size_t n = 0; n < a->state_size; n++)
			product += (double)c[n] * (double)b[n];
		sum += product * d * decay * (double)x[s * a->x.stride];
		decay *= exp(-d * exp((double)a->a_log[head]));
	}
	return sum;
}

static void scans_are_near_the_dual_form(void **state)
{
	const struct scan_args args = { .n_tokens = 100,
					.n_heads = 4,
					.head_dim = 3,
					.n_groups = 2,
					.state_size = 20,
					.step_max = INFINITY };
	struct setup setup = setup_new(args, 1, 0);
	const struct scan_args *a = &setup.args;
	double squares = 0, errors = 0;

	(void)state;
	plain_scan(a);
	for (size_t i = 0; i < a->n_tokens * a->n_heads * a->head_dim; i++) {
		size_t col = i % (a->n_heads * a->head_dim), t = i / (a->n_heads * a->head_dim);
		double wanted = dual_value(a, t, col / a->head_dim, col % a->head_dim);
		double error = (double)a->y.data[t * a->y.stride + col] - wanted;

		squares += wanted * wanted;
		errors += error * error;
	}
	assert_true(squares > 0 && sqrt(errors / squares) < 1e-6);
	setup_free(&setup);
}

static void softplus_is_within_2_ulp(void **state)
{
	(void)state;
	for (uint32_t magnitude = 0; magnitude < F32_INF; magnitude += 4099) {
		for (uint32_t sign = 0; sign < 2; sign++) {
			float x = f32_from_bits(magnitude | sign << 31), y = f32_softplus(x);
			double exact =
				x > 0 ? (double)x + log1p(exp(-(double)x)) : log1p(exp((double)x));
			double ulp =
				(double)nextafterf((float)exact, INFINITY) - (double)(float)exact;

			if (exact >= (double)0x1p-126f && fabs((double)y - exact) > 2 * ulp)
				fail_msg("softplus(%a) is %a, not %a", (double)x, (double)y, exact);
		}
	}
	assert_true(f32_softplus(-INFINITY) == 0 && isinf(f32_softplus(INFINITY)) &&
		    isnan(f32_softplus(NAN)) && f32_softplus(0) == logf(2));
}

static void no_tokens_are_not_scanned(void **state)
{
	struct values y = values_new(16, 0);

	(void)state;
	EACH_SIDE(s)
	{
		float *there = values_send(s, &y);
		struct scan_args args = { .n_heads = 1, .head_dim = 4, .n_groups = 1 };

		args.y = (struct rows_out){ there, 4 };
		args.scratch = side_memory_new(
			s, s->ops->scratch(&(const struct scratch_args){ .scan = &args }));
		s->ops->scan(s->stream, &args);
		values_check(s, &y, there, "no tokens");
		s->ops->memory_free(s->executor, args.scratch);
	}
	values_free(&y);
}

/* --- channels --- */

/* backend/executor.h: the scan of Mamba-1, bit for bit against plain loops over num/ on the
 * executor of every backend, and near the same sums without a state. */

/* The arrays of a scan, by the order of its arguments. */
enum { X, STEPS, B, C, A_LOG, SKIP, Y, N_ARRAYS };

/* Rows have gaps of `more` elements. */
struct channel_setup {
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

static struct channel_setup channel_setup_new(struct scan_channels_args args, size_t more,
					      size_t shift)
{
	size_t n = args.n_tokens, wide = args.n_channels + more, narrow = args.state_size + more;
	struct channel_setup s = { .values = { [X] = values_new(n * wide, shift),
					       [STEPS] = values_new(n * wide, 0),
					       [B] = values_new(n * narrow, shift),
					       [C] = values_new(n * narrow, 0),
					       [A_LOG] = values_new(
						       args.state_size * args.n_channels, 0),
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

static void channel_setup_free(struct channel_setup *s)
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

static void channel_plain_scan(const struct scan_channels_args *a)
{
	for (size_t col = 0; col < a->n_channels; col++)
		plain_channel(a, col);
}

static void channel_scan_at(const struct scan_channels_args *channels, size_t more, size_t shift)
{
	struct channel_setup channel_setup = channel_setup_new(*channels, more, shift);

	channel_plain_scan(&channel_setup.args);
	EACH_SIDE(s)
	{
		struct scan_channels_args args = channel_setup.args;
		float *there[N_ARRAYS];

		for (int i = 0; i < N_ARRAYS; i++)
			there[i] = values_send(s, &channel_setup.values[i]);
		args_point(&args, there);
		s->ops->scan_channels(s->stream, &args);
		for (int i = 0; i < N_ARRAYS; i++)
			values_check(s, &channel_setup.values[i], there[i],
				     i == Y ? "scan_channels" : "what a scan reads");
	}
	channel_setup_free(&channel_setup);
}

/* Channels and states below, at and above vectors and blocks of threads. */
static void scans_equal_plain_loops(void **state)
{
	static const struct scan_channels_args channels[] = {
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
	for (size_t i = 0; i < N_OF(channels); i++)
		for (size_t more = 0; more <= 4; more += 2)
			channel_scan_at(&channels[i], more, i % 2);
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
	struct channel_setup channel_setup = channel_setup_new(
		(struct scan_channels_args){ .n_tokens = 60, .n_channels = 7, .state_size = 16 }, 1,
		0);
	const struct scan_channels_args *a = &channel_setup.args;
	double squares = 0, errors = 0;

	(void)state;
	channel_plain_scan(a);
	for (size_t i = 0; i < a->n_tokens * a->n_channels; i++) {
		size_t t = i / a->n_channels, col = i % a->n_channels;
		double wanted = sum_value(a, t, col);
		double error = (double)a->y.data[t * a->y.stride + col] - wanted;

		squares += wanted * wanted;
		errors += error * error;
	}
	assert_true(squares > 0 && sqrt(errors / squares) < 1e-6);
	channel_setup_free(&channel_setup);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scans_are_near_plain_loops),
		cmocka_unit_test(scans_are_near_the_dual_form),
		cmocka_unit_test(softplus_is_within_2_ulp),
		cmocka_unit_test(no_tokens_are_not_scanned),
		cmocka_unit_test(scans_equal_plain_loops),
		cmocka_unit_test(scans_are_near_sums_without_a_state),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
