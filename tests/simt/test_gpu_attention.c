/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cuda/forward.h: attention, bit for bit against the CPU's, and the loss against its sums of exponentials.
 */
#include "tests/simt/forward_setup.h"

#include "kernels/cpu/compute.h"

static const struct compute *const cpu = &compute_any;

/* --- attention --- */

/* All of q, k, v, y and sinks. */
struct setup {
	struct values q, k, v, y, sinks;
};

static struct setup setup_new(struct attention_args *args, bool sinks, size_t shift)
{
	size_t n = args->n_tokens;
	struct setup s = { values_new(n * args->n_heads * args->head_dim, shift),
			   values_new(n * args->n_kv_heads * args->head_dim, shift),
			   values_new(n * args->n_kv_heads * args->value_dim, shift),
			   values_new(n * args->n_heads * args->value_dim, shift), values_new(args->n_heads, 0) };

	args->q = s.q.got;
	args->k = s.k.got;
	args->v = s.v.got;
	args->y = s.y.got;
	args->sinks = sinks ? s.sinks.got : NULL;
	return s;
}

static void setup_free(struct setup s)
{
	values_free(s.q);
	values_free(s.k);
	values_free(s.v);
	values_free(s.y);
	values_free(s.sinks);
}

/* One head after the other, 64 queries at a time. */
static void head_on_cpu(const struct attention_args *args, struct attention *a, size_t head, float *y)
{
	size_t kv = head / (args->n_heads / args->n_kv_heads), wide = args->n_heads * args->head_dim;
	size_t mixed = args->n_heads * args->value_dim;

	a->softmax.sink = args->sinks ? args->sinks + head : NULL;
	cpu->attention_pack(a, args->k + kv * args->head_dim, args->n_kv_heads * args->head_dim,
			    args->v + kv * args->value_dim, args->n_kv_heads * args->value_dim);
	for (size_t first = 0; first < args->n_tokens; first += ATTENTION_QUERIES) {
		size_t n = args->n_tokens - first < ATTENTION_QUERIES ? args->n_tokens - first : ATTENTION_QUERIES;

		cpu->attend(a, args->q + first * wide + head * args->head_dim, wide, first, n,
			    y + first * mixed + head * args->value_dim, mixed);
	}
}

static void attend_on_cpu(const struct attention_args *args, float *y)
{
	size_t wide = attention_wide(args->value_dim), n = args->n_tokens;
	struct attention a = { .n_tokens = n, .head_dim = args->head_dim, .value_dim = args->value_dim,
			       .window = args->window, .softmax = { args->scale, args->softcap, NULL } };

	a.keys = some_memory(attention_whole(n) * args->head_dim * sizeof(float));
	a.values = some_memory(n * wide * sizeof(float));
	a.scores = some_memory(ATTENTION_QUERIES * attention_stride(n) * sizeof(float));
	a.mixed = some_memory(ATTENTION_QUERIES * wide * sizeof(float));
	for (size_t head = 0; head < args->n_heads; head++)
		head_on_cpu(args, &a, head, y);
	free(a.keys);
	free(a.values);
	free(a.scores);
	free(a.mixed);
}

/* The spare memory is poisoned: what is read there has been written. */
static void attend_both(struct attention_args *args, const struct setup *s)
{
	uint64_t size = gpu_attend_spare(args);

	args->spare = some_memory(size);
	memset(args->spare, 0xFF, size); /* NaN */
	gpu_attend(device_lane(), args);
	assert_well();
	free(args->spare);
	attend_on_cpu(args, s->y.wanted);
}

static void attention(void **state)
{
	static const struct {
		size_t n_tokens, n_heads, n_kv_heads, head_dim, value_dim, window;
		float scale, softcap;
	} cases[] = {
		{ 1, 1, 1, 4, 4, 0, 0.125f, 0 },      { 3, 4, 4, 64, 64, 0, 0.125f, 0 },   { 15, 4, 1, 16, 16, 0, 0.2f, 0 },
		{ 16, 2, 1, 15, 17, 0, 0.2f, 0 },     { 17, 4, 2, 1, 1, 0, 1, 0 },	   { 63, 1, 1, 33, 65, 0, 0.125f, 0 },
		{ 64, 1, 1, 64, 64, 0, 0.125f, 0 },   { 65, 2, 2, 64, 128, 0, 0.125f, 0 }, { 127, 4, 1, 32, 12, 0, 0.3f, 0 },
		{ 130, 2, 1, 80, 24, 0, 0.125f, 0 },  { 67, 1, 1, 12, 80, 0, 0.125f, 0 },  { 200, 2, 1, 64, 64, 7, 0.125f, 0 },
		{ 150, 2, 2, 16, 16, 70, 0.2f, 0 },   { 150, 1, 1, 16, 16, 1, 0.2f, 0 },   { 150, 1, 1, 16, 16, 16, 0.2f, 0 },
		{ 150, 1, 1, 16, 16, 64, 0.2f, 0 },   { 99, 2, 1, 64, 32, 0, 0.125f, 3.5f }, { 90, 4, 2, 32, 32, 9, 0.125f, 2 },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(cases) * 3; i++) {
		struct attention_args args = { cases[i / 3].n_tokens,  cases[i / 3].n_heads,   cases[i / 3].n_kv_heads,
					       cases[i / 3].head_dim,  cases[i / 3].value_dim, cases[i / 3].window,
					       cases[i / 3].scale,     cases[i / 3].softcap,   .sinks = NULL };
		struct setup s = setup_new(&args, i % 3 == 1, i % 3 == 2);

		attend_both(&args, &s);
		setup_free(s);
	}
}

/* Numbers that are none, and keys that nobody is like. */
static void attention_nonfinite(void **state)
{
	struct attention_args args = { .n_tokens = 90, .n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .value_dim = 16,
				       .scale = 1, .softcap = 5 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		static const float special[] = { NAN, INFINITY, -INFINITY, 1e30f };
		struct setup s = setup_new(&args, i % 2, 0);

		s.k.got[37 * 16 + 3] = s.k.wanted[37 * 16 + 3] = special[i];
		s.v.got[71 * 16 + 5] = s.v.wanted[71 * 16 + 5] = special[i];
		s.q.got[11 * 32 + 7] = s.q.wanted[11 * 32 + 7] = special[i];
		attend_both(&args, &s);
		setup_free(s);
	}
}

/* More queries than there is room for: 4032, then 130. */
static void attention_in_parts(void **state)
{
	struct attention_args args = { .n_tokens = 4162, .n_heads = 1, .n_kv_heads = 1, .head_dim = 4, .value_dim = 4,
				       .window = 70, .scale = 0.5f };
	struct setup s = setup_new(&args, false, 0);

	(void)state;
	assert_int_equal(gpu_attend_spare(&args), 64 << 20);
	attend_both(&args, &s);
	setup_free(s);
}

/* 64 queries at least; room for a long sequence is enough for a shorter one. */
static void attention_spare(void **state)
{
	struct attention_args args = { .n_tokens = 8192, .n_heads = 128, .n_kv_heads = 8, .head_dim = 64, .value_dim = 64 };
	uint64_t before = 0;

	(void)state;
	assert_int_equal(gpu_attend_spare(&args), 64 * 128 * 8193 * 4);
	for (args.n_heads = 1; args.n_heads <= 128; args.n_heads *= 2, before = 0)
		for (args.n_tokens = 1; args.n_tokens <= 8192; args.n_tokens += 31) {
			assert_true(gpu_attend_spare(&args) >= before);
			before = gpu_attend_spare(&args);
		}
	args.n_heads = 128;
	args.n_tokens = 5;
	assert_int_equal(gpu_attend_spare(&args), 64 * 128 * 65 * 4);
	args.n_tokens = 0;
	assert_int_equal(gpu_attend_spare(&args), 0);
}

/* --- loss --- */

/* Of the logarithm CUDA and libm may have other last bits. */
static void assert_close(float got, float wanted)
{
	assert_true(got == wanted || nextafterf(got, wanted) == wanted);
}

/* c tanh(x / c), near to libm's; and the CPU's steps. */
static void cap(float *x, size_t n, float softcap)
{
	float *scaled = some_memory(n * sizeof *x);

	memcpy(scaled, x, n * sizeof *x);
	cpu->softcap(x, softcap, n);
	for (size_t i = 0; i < n; i++)
		assert_true(fabsf(x[i] - softcap * tanhf(scaled[i] / softcap)) < 1e-5f);
	free(scaled);
}

static void entropy_at(size_t n_cols, float softcap, size_t first)
{
	enum { ROWS = 7 };
	struct values logits = values_new(ROWS * n_cols, 0), picked = values_new(ROWS, 0);
	uint32_t labels[ROWS] = { 0, (uint32_t)first, (uint32_t)(first + n_cols - 1), (uint32_t)(first + n_cols),
				  (uint32_t)(first + n_cols / 2), UINT32_MAX, (uint32_t)first - 1 };
	float log_sums[ROWS];
	const struct cross_entropy_args args = { logits.got, ROWS, n_cols, first, softcap, labels, log_sums, picked.got };

	gpu_cross_entropy(device_lane(), &args);
	assert_well();
	if (softcap > 0)
		cap(logits.wanted, logits.n, softcap);
	for (size_t r = 0; r < ROWS; r++) {
		const float *row = logits.wanted + r * n_cols;

		assert_close(log_sums[r], cpu->log_sum_exp(row, n_cols));
		if (labels[r] >= first && labels[r] < first + n_cols)
			picked.wanted[r] = row[labels[r] - first];
	}
	values_free(logits);
	values_free(picked);
}

static void entropies(void **state)
{
	static const size_t more_sizes[] = { 255, 256, 257, 2047, 2048, 2049, 5000 };

	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++)
		entropy_at(sizes[i], i % 2 ? 0 : 2.5f, i % 3 * 1000);
	for (size_t i = 0; i < N_OF(more_sizes); i++)
		entropy_at(more_sizes[i], i % 2 ? 3 : 0, i % 2 * 16384);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention),	   cmocka_unit_test(attention_nonfinite), cmocka_unit_test(attention_in_parts),
		cmocka_unit_test(attention_spare), cmocka_unit_test(entropies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
