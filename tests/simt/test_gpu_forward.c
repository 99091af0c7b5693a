/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cuda/forward.h: looking at values, what is done to each, and rows, bit for bit against the CPU's loops over num/ and
 * backend/compute.h.
 */
#include "tests/simt/forward_setup.h"

#include "kernels/cpu/compute.h"
#include "num/float16.h"

static const struct compute *const cpu = &compute_any;

/* --- looking at values --- */

/* Every kind of number among others, where i says so. */
static void specials_put(struct values *v, size_t every)
{
	static const float special[] = { NAN,	 INFINITY, -INFINITY,	 -NAN,		3.4e38f,
					 -0.0f, 1e-40f,   -1.4013e-45f, -7.0078125f, 2.01171875f };

	for (size_t i = every; every && i < v->n; i += every)
		v->got[i] = v->wanted[i] = special[i / every % N_OF(special)];
}

static void look_at(size_t n, size_t shift, size_t every)
{
	struct values v = values_new(n, shift);
	struct seen seen = { .n_nonfinite = 5, .amax = 3.9f }, rounded = { 0 };
	uint64_t n_nonfinite = 5, n_rounded = 0, counts[4096] = { [7] = 3 }, wanted[4096] = { [7] = 3 };
	float amax;

	specials_put(&v, every);
	gpu_see(device_lane(), v.got, n, &seen);
	gpu_histogram(device_lane(), v.got, n, counts);
	gpu_round_amax(device_lane(), v.got, n, &rounded);
	assert_well();
	amax = cpu->amax(v.wanted, n, &n_nonfinite);
	cpu->histogram(v.wanted, n, wanted);
	assert_same(seen.amax, amax > 3.9f ? amax : 3.9f);
	assert_int_equal(seen.n_nonfinite, n_nonfinite);
	assert_memory_equal(counts, wanted, sizeof counts);
	assert_same(rounded.amax, cpu->round_amax(v.wanted, n, &n_rounded));
	assert_int_equal(rounded.n_nonfinite, n_rounded);
	values_free(v);
}

static void looking(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++)
		for (size_t every = 0; every < 4; every++)
			look_at(sizes[i], i % 2, every);
	look_at(4095, 0, 0);
	look_at(4096, 1, 1);
	look_at(9999, 0, 1009);
	look_at(1024 * 4096 + 5, 0, 100003); /* more than blocks take at once */
}

/* --- element by element --- */

static void rounding(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 4; i++) {
		size_t n = sizes[i / 4], shift = i % 2, y_shift = i / 2 % 2;
		struct values x = values_new(n, shift);
		uint16_t *got = some_memory((n + y_shift) * 2), *wanted = some_memory(n * 2);

		specials_put(&x, 3);
		gpu_round_bf16(device_lane(), x.got, n, got + y_shift);
		cpu->round_bf16(x.wanted, n, wanted);
		assert_memory_equal(got + y_shift, wanted, n * 2);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(wanted[k], bf16_from_f32(x.wanted[k]));
		free(got);
		free(wanted);
		values_free(x);
	}
	assert_well();
}

static void adding(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 4; i++) {
		size_t n = sizes[i / 4], n_rows = 1 + i % 5;
		struct values x = values_new(n * n_rows, i % 2), y = values_new(n * n_rows, i / 2 % 2);

		gpu_add(device_lane(), x.got, y.got, n * n_rows);
		cpu->add(x.wanted, y.wanted, n * n_rows);
		gpu_add_row(device_lane(), x.got, y.got, n_rows, n);
		cpu->add_row(x.wanted, y.wanted, n_rows, n);
		values_free(x);
		values_free(y);
	}
	assert_well();
}

static void gate_at(enum activation activation, size_t n_rows, size_t n, size_t shift, size_t more)
{
	size_t g_stride = n + more, u_stride = n + 4, y_stride = n + 2 * more;
	struct values g = values_new(n_rows * g_stride, shift), u = values_new(n_rows * u_stride, 0);
	struct values y = values_new(n_rows * y_stride, 0);

	specials_put(&g, 7);
	for (size_t i = 0; i < g.n; i += 5)
		g.got[i] = g.wanted[i] = 30 * g.wanted[i];
	gpu_gate(device_lane(), activation, g.got, g_stride, u.got, u_stride, n_rows, n, y.got, y_stride);
	for (size_t r = 0; r < n_rows; r++) {
		cpu->gate(activation, g.wanted + r * g_stride, u.wanted + r * u_stride, n, y.wanted + r * y_stride);
		for (size_t i = 0; i < n; i++)
			assert_same(y.wanted[r * y_stride + i], activation_apply(activation, g.wanted[r * g_stride + i]) *
									u.wanted[r * u_stride + i]);
	}
	gpu_gate(device_lane(), activation, g.got, g_stride, u.got, u_stride, n_rows, n, g.got, g_stride);
	for (size_t r = 0; r < n_rows; r++)
		cpu->gate(activation, g.wanted + r * g_stride, u.wanted + r * u_stride, n, g.wanted + r * g_stride);
	values_free(g);
	values_free(u);
	values_free(y);
}

static void gates(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++)
		for (size_t more = 0; more <= 4; more += 2) {
			gate_at(ACT_SILU, 3, sizes[i], 0, more);
			gate_at(ACT_GELU, 2, sizes[i], i % 2, more);
		}
	assert_well();
}

static void paired_gates(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 2; i++) {
		size_t n = sizes[i / 2];
		struct values x = values_new(2 * n, i % 2), y = values_new(n, 0);
		float again[1000];

		gpu_gate_pairs(device_lane(), x.got, 3.5f, n, y.got);
		for (size_t k = 0; k < n; k++) {
			float gate = fminf(x.wanted[2 * k], 3.5f), up = fmaxf(fminf(x.wanted[2 * k + 1], 3.5f), -3.5f);

			y.wanted[k] = (up + 1) * gate / (1.0f + f32_exp(-1.702f * gate));
		}
		cpu->gate_pairs(x.wanted, 3.5f, n, again);
		assert_memory_equal(again, y.wanted, n * sizeof(float));
		values_free(x);
		values_free(y);
	}
	assert_well();
}

/* --- rows --- */

static void copies(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 6; i++) {
		size_t n = sizes[i / 6], repeat = 1 + i % 3, n_rows = 7, more = i % 2 ? 3 : 4 * (i % 3);
		struct values x = values_new(n_rows * (n + 4), i % 4 == 3), y = values_new(n_rows * (n + more), 0);

		gpu_copy_rows(device_lane(), y.got, n + more, x.got, n + 4, repeat, n_rows, n);
		for (size_t r = 0; r < n_rows; r++)
			memcpy(y.wanted + r * (n + more), x.wanted + r / repeat * (n + 4), n * sizeof(float));
		values_free(x);
		values_free(y);
	}
	assert_well();
}

static void pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 4; i++) {
		size_t n = 2 * sizes[i / 4], n_rows = 3, more = 4 * (i % 2), shift = i / 2 % 2;
		struct values x = values_new(n_rows * (n + more), shift), y = values_new(n_rows * (n + 4), 0);

		gpu_part_pairs(device_lane(), y.got, n + 4, x.got, n + more, n_rows, n);
		for (size_t k = 0; k < n_rows * n; k++) {
			size_t row = k / n, col = k % n;

			y.wanted[row * (n + 4) + col / 2 + col % 2 * (n / 2)] = x.wanted[row * (n + more) + col];
		}
		values_free(x);
		values_free(y);
	}
	assert_well();
}

/* There, and back with factors. */
static void picked_rows(void **state)
{
	static const uint32_t rows[] = { 4, 0, 7, 8, 2 };
	static const float factors[] = { 0.3f, 1, -0.1f, 0.7f, 1e-3f };

	(void)state;
	for (size_t i = 0; i < N_OF(sizes) * 2; i++) {
		size_t n = sizes[i / 2];
		struct values x = values_new(9 * n, i % 2), y = values_new(5 * n, 0);

		gpu_gather(device_lane(), y.got, x.got, rows, 5, n);
		for (size_t r = 0; r < 5; r++)
			memcpy(y.wanted + r * n, x.wanted + rows[r] * n, n * sizeof(float));
		gpu_scatter_add(device_lane(), x.got, y.got, rows, factors, 5, n);
		for (size_t r = 0; r < 5; r++)
			cpu->add_scaled(x.wanted + rows[r] * n, y.wanted + r * n, factors[r], n);
		values_free(x);
		values_free(y);
	}
	assert_well();
}

static void norm_at(size_t n_rows, size_t n, size_t more, size_t shift)
{
	size_t x_stride = n + more;
	struct values x = values_new(n_rows * x_stride, shift), y = values_new(n_rows * n, 0), weight = values_new(n, 0);

	gpu_rms_norm(device_lane(), x.got, x_stride, weight.got, 1, 1e-5f, n_rows, n, y.got, n);
	cpu->rms_norm(x.wanted, x_stride, weight.wanted, 1, 1e-5f, n_rows, n, y.wanted, n);
	gpu_rms_norm(device_lane(), x.got, x_stride, weight.got, 0, 1e-6f, n_rows, n, x.got, x_stride);
	cpu->rms_norm(x.wanted, x_stride, weight.wanted, 0, 1e-6f, n_rows, n, x.wanted, x_stride);
	values_free(x);
	values_free(y);
	values_free(weight);
}

static void norms(void **state)
{
	static const size_t more_sizes[] = { 511, 512, 513, 2047, 2048, 2049, 2050, 5000 };

	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++)
		norm_at(1 + 13 * (i % 3), sizes[i], i % 5, i % 2);
	for (size_t i = 0; i < N_OF(more_sizes); i++)
		norm_at(3, more_sizes[i], 4 * (i % 2), i % 2);
	norm_at(35, 64, 0, 0);
	assert_well();
}

/* Of heads whose rotating part is all of them, or has others behind it. */
static void rotations(void **state)
{
	static const size_t rotating[] = { 2, 4, 6, 8, 30, 32, 64, 66 };

	(void)state;
	for (size_t i = 0; i < N_OF(rotating) * 4; i++) {
		size_t n = rotating[i / 4], head_dim = n + (i % 2 ? 0 : 4), n_heads = 1 + i % 4, n_tokens = 5;
		size_t stride = n_heads * head_dim + i % 3 * 2;
		struct values x = values_new(n_tokens * stride, i % 2), angles = values_new(n_tokens * n, 0);
		const float *cosines = angles.wanted, *sines = angles.wanted + n_tokens * (n / 2);

		gpu_rope(device_lane(), x.got, stride, n_tokens, n_heads, head_dim, angles.got,
			 angles.got + n_tokens * (n / 2), n);
		for (size_t t = 0; t < n_tokens; t++)
			cpu->rope(x.wanted + t * stride, n_heads, head_dim, cosines + t * (n / 2), sines + t * (n / 2), n);
		values_free(x);
		values_free(angles);
	}
	assert_well();
}

/* --- nothing to do --- */

/* Of n elements that are nowhere. */
static void run_all(size_t n)
{
	struct device_lane *lane = device_lane();
	const struct attention_args attention = { .n_tokens = n, .n_heads = 1, .n_kv_heads = 1, .head_dim = 4, .value_dim = 4 };
	const struct cross_entropy_args entropy = { .n_rows = n, .n_cols = 4 };

	gpu_see(lane, NULL, n, NULL);
	gpu_round_amax(lane, NULL, n, NULL);
	gpu_histogram(lane, NULL, n, NULL);
	gpu_round_bf16(lane, NULL, n, NULL);
	gpu_add(lane, NULL, NULL, n);
	gpu_add_row(lane, NULL, NULL, n, 4);
	gpu_gate(lane, ACT_SILU, NULL, 4, NULL, 4, n, 4, NULL, 4);
	gpu_gate_pairs(lane, NULL, 1, n, NULL);
	gpu_copy_rows(lane, NULL, 4, NULL, 4, 1, n, 4);
	gpu_part_pairs(lane, NULL, 4, NULL, 4, n, 4);
	gpu_gather(lane, NULL, NULL, NULL, n, 4);
	gpu_scatter_add(lane, NULL, NULL, NULL, NULL, n, 4);
	gpu_rms_norm(lane, NULL, 4, NULL, 0, 0, n, 4, NULL, 4);
	gpu_rope(lane, NULL, 4, n, 1, 4, NULL, NULL, 4);
	gpu_attend(lane, &attention);
	gpu_cross_entropy(lane, &entropy);
}

static void nothing(void **state)
{
	struct err err;

	(void)state;
	run_all(0);
	assert_well();
	device_fail(device_lane(), "a call", "it failed");
	run_all(4);
	assert_int_equal(device_lane_failed(device_lane(), &err), -1);
	assert_string_equal(err.message, "a call on GPU 0: it failed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looking),	cmocka_unit_test(rounding), cmocka_unit_test(adding),
		cmocka_unit_test(gates),	cmocka_unit_test(paired_gates), cmocka_unit_test(copies),
		cmocka_unit_test(pairs),	cmocka_unit_test(picked_rows), cmocka_unit_test(norms),
		cmocka_unit_test(rotations),	cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
