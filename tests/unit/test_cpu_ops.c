/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cpu/forward/ops_loops.h: every instruction set against num's scalars, or against a plain
 * loop in double, and bit for bit against the others.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/forward/ops.h"
#include "num/float16.h"

#define N_SETS_MAX 8

/* The rows that this machine can run. */
static struct set {
	const struct host_ops *host;
	struct executor_ops ops;
} sets[N_SETS_MAX];
static size_t n_sets;

static int find_sets(void **state)
{
	(void)state;
	for (const struct host_ops *const *row = host_ops; *row; row++) {
		if (!(*row)->usable()) {
			print_message("SKIPPED: instructions %s: this CPU lacks them\n",
				      (*row)->name);
			continue;
		}
		sets[n_sets].host = *row;
		(*row)->operations(&sets[n_sets++].ops);
	}
	return 0;
}

/* In [-1, 1], the same each time. */
static float noise(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return (float)(int32_t)*state / 2147483648.0f;
}

static void assert_same(float got, float wanted)
{
	if (isnan(wanted))
		assert_true(isnan(got));
	else
		assert_int_equal(f32_bits(got), f32_bits(wanted));
}

/* Activations, and exp in them, are as of codes. */
static void gates_equal_the_activations_of_num(void **state)
{
	enum { N = 1003 };
	static const enum activation activations[] = { ACT_SILU,  ACT_GELU,	ACT_SIGMOID,
						       ACT_SRELU, ACT_SOFTPLUS, ACT_NONE };
	static float x[N], up[N], y[N];

	(void)state;
	for (uint32_t start = 0; start < 400; start++) {
		for (uint32_t i = 0; i < N; i++) {
			x[i] = f32_from_bits((start * N + i) * 10709);
			up[i] = i % 2 ? 1 : -0.75f;
		}
		for (size_t s = 0; s < n_sets; s++)
			for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
				sets[s].ops.gate(NULL, &(const struct gate_args){
							       .activation = activations[a],
							       .gate = { x, N },
							       .up = { up, N },
							       .n_rows = 1,
							       .n_cols = N,
							       .y = { y, N } });
				for (size_t i = 0; i < N; i++)
					assert_same(y[i],
						    activation_apply(activations[a], x[i]) * up[i]);
				sets[s].ops.gate(NULL, &(const struct gate_args){
							       .activation = activations[a],
							       .gate.data = x,
							       .n_rows = 1,
							       .n_cols = N,
							       .y.data = y });
				for (size_t i = 0; i < N; i++)
					assert_same(y[i], activation_apply(activations[a], x[i]));
			}
	}
}

static void rounding_equals_num(void **state)
{
	static const float special[] = { NAN,	INFINITY, -INFINITY,   3.4e38f,
					 -0.0f, 1e-40f,	  -7.0078125f, 2.01171875f };
	enum { N = 137 };
	float x[N], y[N], z[N];
	uint32_t seed = 1;

	(void)state;
	for (size_t s = 0; s < n_sets; s++)
		for (size_t n_special = 0; n_special <= 8; n_special++) {
			struct value_stats stats = { 0 }, before = { 0 };
			uint64_t wanted = 0;
			float amax = 0;

			for (size_t i = 0; i < N; i++)
				x[i] = i % 17 < n_special ? special[i % 17] : noise(&seed);
			memcpy(z, x, sizeof x);
			sets[s].host->round_bf16_f32(x, N, y);
			sets[s].ops.round(
				NULL,
				&(const struct round_args){
					.x = z, .n = N, .y = z, .rounded = { .stats = &stats } });
			sets[s].ops.measure(NULL,
					    &(const struct measure_args){ y, N, &before, NULL });
			for (size_t i = 0; i < N; i++) {
				float rounded = bf16_to_f32(bf16_from_f32(x[i]));

				assert_same(y[i], rounded);
				assert_same(z[i], rounded);
				wanted += !isfinite(rounded);
				amax = fabsf(rounded) > amax ? fabsf(rounded) : amax;
			}
			assert_int_equal(stats.n_nonfinite, wanted);
			assert_int_equal(before.n_nonfinite, wanted);
			assert_same(stats.amax, amax);
			assert_same(before.amax, amax);
		}
}

static void softmaxes_are_near_double_and_the_same_everywhere(void **state)
{
	enum { N = 77 };
	float x[N], y[N], first[N] = { 0 };
	uint32_t seed = 2, chosen[N];

	(void)state;
	for (size_t n = 1; n <= N; n++) {
		/* exp() of values about 300 overflows, of those about -300 vanishes. */
		float offset = 300 * ((float)(n % 3) - 1);
		double sum = 0, bound;

		for (size_t i = 0; i < n; i++) {
			x[i] = 20 * noise(&seed) + offset;
			sum += exp((double)x[i]);
		}
		bound = 1e-5 + ldexp(fabs(log(sum)), -23); /* the logarithm is rounded to fp32 */
		for (size_t s = 0; s < n_sets; s++) {
			float scores[2 * N], got, label;

			memcpy(scores, x, sizeof x);
			sets[s].ops.cross_entropy(NULL, &(const struct cross_entropy_args){
								.logits = scores,
								.n_rows = 1,
								.n_cols = n,
								.labels = &(const uint32_t){ 0 },
								.log_sums = &got,
								.label_logits = &label });
			assert_true(fabs((double)got - log(sum)) < bound);
			sets[s].ops.route(NULL, &(const struct route_args){ .n_tokens = 1,
									    .n_experts = n,
									    .top_k = n,
									    .kind = ROUTE_SOFTMAX,
									    .scale = 1,
									    .scores = scores,
									    .chosen = chosen,
									    .weights = y });
			if (s == 0)
				memcpy(first, y, sizeof y);
			for (size_t i = 0; i < n; i++) {
				assert_true(fabs((double)y[i] - exp((double)x[i]) / sum) < bound);
				assert_same(y[i], first[i]);
			}
		}
	}
}

/* One head, as small or as ragged as they come. */
struct head {
	size_t n_tokens, head_dim, value_dim, window;
	float softcap, sink;
};

#define MOST_TOKENS 200
#define MOST_DIM    80

struct case_data {
	float q[MOST_TOKENS * MOST_DIM], k[MOST_TOKENS * MOST_DIM], v[MOST_TOKENS * MOST_DIM];
	float y[MOST_TOKENS * MOST_DIM], first[MOST_TOKENS * MOST_DIM];
};

static void plain_attention(const struct head *head, const struct case_data *data, size_t query,
			    double *y)
{
	size_t d = head->head_dim,
	       begin = head->window && query + 1 > head->window ? query + 1 - head->window : 0;
	double total = head->sink != 0 ? exp((double)head->sink) : 0;

	memset(y, 0, head->value_dim * sizeof *y);
	for (size_t t = begin; t <= query; t++) {
		double score = 0;

		for (size_t i = 0; i < d; i++)
			score += (double)data->q[query * d + i] * (double)data->k[t * d + i];
		score *= 0.125;
		if (head->softcap > 0)
			score = (double)head->softcap * tanh(score / (double)head->softcap);
		total += exp(score);
		for (size_t i = 0; i < head->value_dim; i++)
			y[i] += exp(score) * (double)data->v[t * head->value_dim + i];
	}
	for (size_t i = 0; i < head->value_dim; i++)
		y[i] /= total;
}

static void run_head(const struct executor_ops *ops, const struct head *head,
		     const struct case_data *data, float *y)
{
	struct attention_args args = { .n_tokens = head->n_tokens,
				       .n_heads = 1,
				       .n_kv_heads = 1,
				       .head_dim = head->head_dim,
				       .value_dim = head->value_dim,
				       .window = head->window,
				       .scale = 0.125f,
				       .softcap = head->softcap,
				       .sinks = head->sink != 0 ? &head->sink : NULL,
				       .q = data->q,
				       .k = data->k,
				       .v = data->v,
				       .y = y };

	args.scratch =
		malloc(executor_cpu.scratch(&(const struct scratch_args){ .attention = &args }));
	ops->attention(NULL, &args);
	free(args.scratch);
}

static void attention_is_near_double_and_the_same_everywhere(void **state)
{
	static const struct head heads[] = {
		{ 1, 4, 4, 0, 0, 0 },	   { 3, 64, 64, 0, 0, 0 },	{ 64, 64, 64, 0, 0, 0 },
		{ 200, 64, 64, 0, 0, 0 },  { 131, 80, 24, 0, 0, 0 },	{ 67, 12, 80, 0, 0, 0 },
		{ 200, 64, 64, 7, 0, 0 },  { 150, 16, 16, 70, 0, 0 },	{ 150, 16, 16, 1, 0, 0 },
		{ 150, 16, 16, 16, 0, 0 }, { 100, 64, 32, 0, 3.5f, 0 }, { 90, 32, 32, 9, 0, 1.25f },
	};
	static struct case_data data;
	double exact[MOST_DIM];
	uint32_t seed = 3;

	(void)state;
	for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
		const struct head *head = &heads[h];
		size_t n = head->n_tokens * head->value_dim;

		for (size_t i = 0; i < MOST_TOKENS * MOST_DIM; i++) {
			data.q[i] = 3 * noise(&seed);
			data.k[i] = 3 * noise(&seed);
			data.v[i] = noise(&seed);
		}
		for (size_t s = 0; s < n_sets; s++) {
			run_head(&sets[s].ops, head, &data, s ? data.y : data.first);
			if (s)
				assert_memory_equal(data.y, data.first, n * sizeof(float));
		}
		for (size_t t = 0; t < head->n_tokens; t++) {
			plain_attention(head, &data, t, exact);
			for (size_t i = 0; i < head->value_dim; i++)
				assert_true(fabs((double)data.first[t * head->value_dim + i] -
						 exact[i]) < 1e-5);
		}
	}
}

/* Steps that are clamped, rows and states that are no whole vectors; tests/unit/
 * test_executor_scan.c has the values. */
static void scans_are_the_same_everywhere(void **state)
{
	enum { TOKENS = 139, HEADS = 6, DIM = 77, GROUPS = 2, STATE = 37, WIDTH = HEADS * DIM };
	static float x[TOKENS * WIDTH], y[2][TOKENS * WIDTH];
	struct scan_args args = { TOKENS,
				  HEADS,
				  DIM,
				  GROUPS,
				  STATE,
				  .x = { x, WIDTH },
				  .b = { x + 1, GROUPS * STATE },
				  .c = { x + 2, GROUPS * STATE },
				  .steps = { x + 3, HEADS },
				  .step_min = 0.5f,
				  .step_max = 1,
				  .step_bias = x,
				  .a_log = x + HEADS,
				  .skip = x + 2 * HEADS };
	uint32_t seed = 5;

	(void)state;
	args.scratch = calloc(scan_scratch_floats(&args), sizeof(float));
	for (size_t i = 0; i < TOKENS * WIDTH; i++)
		x[i] = noise(&seed);
	for (size_t s = 0; s < n_sets; s++) {
		args.y = (struct rows_out){ y[s > 0], WIDTH };
		sets[s].ops.scan(NULL, &args);
		assert_memory_equal(y[s > 0], y[0], sizeof y[0]);
	}
	free(args.scratch);
}

/* Channels that are no whole vectors; test_executor_scan.c has the values. */
static void channel_scans_are_the_same_everywhere(void **state)
{
	enum { TOKENS = 11, CHANNELS = 37, STATE = 5, N = TOKENS * CHANNELS };
	static float x[N], y[2][N];
	struct scan_channels_args args = { .n_tokens = TOKENS,
					   .n_channels = CHANNELS,
					   .state_size = STATE,
					   .x = { x, CHANNELS },
					   .steps = { x, CHANNELS },
					   .b = { x + 1, CHANNELS },
					   .c = { x + 2, CHANNELS },
					   .a_log = x + 3,
					   .skip = x + 4 };
	uint32_t seed = 6;

	(void)state;
	for (size_t i = 0; i < N; i++)
		x[i] = noise(&seed);
	for (size_t s = 0; s < n_sets; s++) {
		args.y = (struct rows_out){ y[s > 0], CHANNELS };
		sets[s].ops.scan_channels(NULL, &args);
		assert_memory_equal(y[s > 0], y[0], sizeof y[0]);
	}
}

/* The sizes of a convolution and of a scan over 2 heads with one key. */
#define DELTA_TOKENS 69
#define DELTA_MOST   (DELTA_TOKENS * 2 * 40)

struct delta_data {
	float q[DELTA_MOST], k[DELTA_MOST], v[DELTA_MOST], gates[DELTA_MOST];
	float a[DELTA_MOST], b[DELTA_TOKENS * 2], y[DELTA_MOST], x[DELTA_MOST];
};

static void run_delta(const struct executor_ops *ops, struct delta_data *data, size_t key_dim,
		      size_t n, size_t n_decays)
{
	const struct convolve_args convolve = { .activation = n % 2 ? ACT_SILU : ACT_NONE,
						.x = { data->v, 2 * n },
						.weight = { data->k, 2 * n },
						.width = 4,
						.n_tokens = DELTA_TOKENS,
						.n_cols = 2 * n,
						.y = { data->x, 2 * n } };
	struct delta_args scan = { .n_tokens = DELTA_TOKENS,
				   .n_heads = 2,
				   .n_key_heads = 1,
				   .key_dim = key_dim,
				   .value_dim = n,
				   .n_decays = n_decays,
				   .q = data->q,
				   .k = data->k,
				   .v = data->x,
				   .a = data->a,
				   .b = data->b,
				   .a_log = data->gates,
				   .dt_bias = data->q,
				   .y = data->y };

	memcpy(data->a, data->gates, sizeof data->a);
	memcpy(data->b, data->gates + 4, sizeof data->b);
	ops->convolve(NULL, &convolve);
	scan.scratch = calloc(delta_scratch_floats(&scan), sizeof(float));
	ops->delta(NULL, &scan);
	free(scan.scratch);
}

/* The convolution's output is the scan's input. */
static void deltas_are_the_same_everywhere(void **state)
{
	static struct delta_data data, first;
	uint32_t seed = 4;

	(void)state;
	for (size_t i = 0; i < DELTA_MOST; i++) {
		data.q[i] = noise(&seed);
		data.k[i] = noise(&seed) / 8; /* shorter than 1 */
		data.v[i] = noise(&seed);
		data.gates[i] = noise(&seed);
	}
	for (size_t key_dim = 1; key_dim <= 40; key_dim += 3)
		for (size_t n = 1; n <= 40; n += 3)
			for (size_t s = 0; s < 2 * n_sets; s++) {
				run_delta(&sets[s % n_sets].ops, &data, key_dim, n,
					  s < n_sets ? 1 : key_dim);
				if (s % n_sets == 0)
					first = data;
				assert_memory_equal(data.y, first.y,
						    DELTA_TOKENS * 2 * n * sizeof(float));
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gates_equal_the_activations_of_num),
		cmocka_unit_test(rounding_equals_num),
		cmocka_unit_test(softmaxes_are_near_double_and_the_same_everywhere),
		cmocka_unit_test(scans_are_the_same_everywhere),
		cmocka_unit_test(channel_scans_are_the_same_everywhere),
		cmocka_unit_test(deltas_are_the_same_everywhere),
		cmocka_unit_test(attention_is_near_double_and_the_same_everywhere),
	};

	return cmocka_run_group_tests(tests, find_sets, NULL);
}
