/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared library, called as a user's program does: recipe states over many steps, contexts,
 * stacks, threads, and arguments that are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/library_use.h"

/* TransformerEngine's delayed scaling of one slot, from its documentation: "the scaling factor is
 * (FP8_MAX / amax) / 2^margin", amax the maximum of the last L steps, or the latest; a step without
 * values, and an amax that is 0 or not finite, change nothing. */
struct te_slot {
	double steps[64]; /* amaxes, the oldest first */
	size_t n;
	float scale;
};

static void te_step(struct te_slot *slot, float amax, size_t len, bool most_recent, float fmax)
{
	double m = 0;

	if (amax == 0)
		return;
	slot->steps[slot->n++] = (double)amax;
	for (size_t i = slot->n < len ? 0 : slot->n - len; i < slot->n; i++)
		m = slot->steps[i] > m ? slot->steps[i] : m;
	if (most_recent)
		m = (double)amax;
	if (m > 0 && isfinite(m))
		slot->scale = fmax / (float)m;
}

static void check_te(const struct fp8conv_state *state, const struct te_slot *slots, size_t n,
		     size_t len)
{
	float *amax = malloc(len * n * sizeof *amax), scale[6];
	struct fp8conv_history h = { sizeof h, len, n, amax, scale };
	struct fp8conv_error error;

	if (fp8conv_history_get(state, &h, &error))
		fail_msg("%s", error.message);
	for (size_t slot = 0; slot < n; slot++) {
		assert_true(scale[slot] == slots[slot].scale);
		for (size_t i = 1; i < len && i <= slots[slot].n; i++)
			assert_true(amax[(len - i) * n + slot] ==
				    (float)slots[slot].steps[slots[slot].n - i]);
		assert_true(amax[slot] == 0);
	}
	free(amax);
}

/* 40 steps of two GEMMs, whose ranks have other amaxes too. */
#define N_STEPS 40

static int raise_all(void *group, float *values, size_t n)
{
	const float *others = group;

	for (size_t i = 0; i < n; i++)
		values[i] = others[i] > values[i] ? others[i] : values[i];
	return 0;
}

/* A number whose exponent and mantissa vary; every seventh step has none. */
static float step_amax(uint64_t seed, size_t step, size_t slot)
{
	uint64_t z = splitmix64(seed, step * 16 + slot);

	if (z % 7 == 0)
		return 0;
	return ldexpf(1 + (float)(z >> 41) * 0x1p-23f, (int)(z % 31) - 15);
}

static void run_steps(struct fp8conv_context *context, int mode, const char *options, size_t len,
		      const struct te_slot *kind)
{
	size_t n = mode == FP8CONV_FORWARD ? 6 : 4;
	struct te_slot slots[6] = { 0 };
	struct fp8conv_state *state;
	float x[4], others[6];
	struct fp8conv_tensor t = tensor(x, FP8CONV_F32, 2, 2);
	struct fp8conv_autocast cast = { .size = sizeof cast,
					 .calibrating = 1,
					 .recipe = recipe_of(context, "delayed", options),
					 .reduce_max = raise_all,
					 .group = others };

	assert_int_equal(fp8conv_state_create(context, cast.recipe, mode, 2, &state, NULL), 0);
	for (size_t slot = 0; slot < n; slot++)
		slots[slot].scale = 1;
	for (size_t step = 0; step < N_STEPS; step++) {
		assert_int_equal(fp8conv_context_enter(context, &cast, NULL), 0);
		for (size_t slot = 0; slot < n; slot++) {
			float own = step_amax(1, step, slot);

			others[slot] = step_amax(2, step, slot);
			x[0] = own / 2, x[1] = -own, x[2] = NAN, x[3] = 0;
			assert_int_equal(fp8conv_state_quantize(state, slot, &t, NULL, NULL), 0);
			te_step(&slots[slot], own > others[slot] ? own : others[slot], len, kind->n,
				kind->scale);
		}
		assert_int_equal(fp8conv_context_exit(context, NULL), 0);
		check_te(state, slots, n, len);
	}
	fp8conv_state_destroy(state);
}

static void histories_of_40_steps_equal_the_formula(void **state)
{
	static const int lengths[] = { 1, 3, 16 };
	struct fp8conv_context *context = open_context("auto", 2);

	(void)state;
	for (int mode = FP8CONV_FORWARD; mode <= FP8CONV_BACKWARD; mode++)
		for (int recent = 0; recent < 2; recent++)
			for (int margin = 0; margin < 4; margin += 3)
				for (int i = 0; i < 3; i++) {
					struct te_slot kind = { .n = (size_t)recent };
					char options[100];

					kind.scale = ldexpf(mode ? 57344 : 448, -margin);
					snprintf(options, sizeof options,
						 "{\"amax-algo\": \"%s\", \"margin\": %d, "
						 "\"amax-history-len\": %d}",
						 recent ? "most-recent" : "max", margin,
						 lengths[i]);
					run_steps(context, mode, options, (size_t)lengths[i],
						  &kind);
				}
	fp8conv_context_destroy(context);
}

static int lose_a_rank(void *group, float *values, size_t n)
{
	(void)group;
	for (size_t i = 0; i < n; i++)
		values[i] = 1000;
	return 7;
}

/* The inner exit ends no step; a group that fails leaves the state as it was. */
static void contexts_nest_and_a_lost_rank_changes_nothing(void **state)
{
	struct fp8conv_context *context = open_context("auto", 1);
	float x[1] = { 2 }, scale[3], many[6];
	struct fp8conv_tensor t = tensor(x, FP8CONV_F32, 1, 1);
	struct fp8conv_history h = { sizeof h, 2, 3, many, scale };
	struct fp8conv_autocast cast = { .size = sizeof cast,
					 .enabled = 1,
					 .recipe = recipe_of(context, "delayed",
							     "{\"amax-history-len\": 2}") };
	struct fp8conv_autocast off = { .size = sizeof off };
	struct fp8conv_autocast lost = cast;
	struct fp8conv_error error;
	struct fp8conv_state *s, *gone;

	(void)state;
	assert_int_equal(fp8conv_state_create(context, cast.recipe, FP8CONV_FORWARD, 1, &s, NULL),
			 0);
	assert_int_equal(
		fp8conv_state_create(context, cast.recipe, FP8CONV_FORWARD, 1, &gone, NULL), 0);
	assert_int_equal(fp8conv_context_enter(context, &cast, NULL), 0);
	assert_int_equal(fp8conv_context_enter(context, &cast, NULL), 0);
	assert_int_equal(fp8conv_state_quantize(s, 1, &t, NULL, NULL), 0);
	assert_int_equal(fp8conv_state_quantize(gone, 1, &t, NULL, NULL), 0);
	fp8conv_state_destroy(gone);
	assert_int_equal(fp8conv_context_exit(context, NULL), 0);
	assert_int_equal(fp8conv_history_get(s, &h, NULL), 0);
	assert_true(many[1] == 2 && scale[1] == 1);
	assert_int_equal(fp8conv_context_exit(context, NULL), 0);
	assert_int_equal(fp8conv_history_get(s, &h, NULL), 0);
	assert_true(many[1] == 0 && many[4] == 2 && scale[1] == 224 && scale[0] == 1);
	assert_int_equal(fp8conv_context_exit(context, &error), FP8CONV_USAGE);

	lost.reduce_max = lose_a_rank;
	x[0] = 8;
	assert_int_equal(fp8conv_context_enter(context, &lost, NULL), 0);
	assert_int_equal(fp8conv_state_quantize(s, 1, &t, NULL, NULL), 0);
	assert_int_equal(fp8conv_context_exit(context, &error), FP8CONV_SYSTEM);
	assert_non_null(strstr(error.message, "3 amaxes over the group failed with 7"));
	assert_int_equal(fp8conv_history_get(s, &h, NULL), 0);
	assert_true(many[1] == 8 && many[4] == 2 && scale[1] == 224);

	assert_int_equal(fp8conv_context_enter(context, &off, NULL), 0);
	assert_int_equal(fp8conv_state_quantize(s, 1, &t, NULL, NULL), 0);
	assert_int_equal(fp8conv_context_exit(context, NULL), 0);
	assert_int_equal(fp8conv_history_get(s, &h, NULL), 0);
	assert_true(many[1] == 8 && scale[1] == 224);
	fp8conv_state_destroy(s);
	fp8conv_context_destroy(context);
}

/* Each matrix of a stack has its own scale; rows and matrices may lie apart. */
static void a_stack_is_quantized_matrix_by_matrix(void **state)
{
	struct fp8conv_context *context = open_context("auto", 2);
	const struct fp8conv_recipe *recipe = recipe_of(context, "current", NULL);
	float x[3][2][5] = { { { 1, 2 }, { 3, 4 } }, { { -14, 7 } }, { { 0, 0 }, { 0, 448 } } };
	float y[3][2][2], amax[3], scales[3];
	uint8_t codes[3][2][3];
	struct fp8conv_tensor in = tensor(x, FP8CONV_F32, 2, 2), out = tensor(y, FP8CONV_F32, 2, 2);
	struct fp8conv_tensor c = tensor(codes, FP8CONV_E4M3, 2, 2),
			      s = tensor(scales, FP8CONV_F32, 1, 1);
	struct fp8conv_quantized q = { .size = sizeof q, .rowwise = &c, .rowwise_scale_inv = &s };

	(void)state;
	in.batch = out.batch = c.batch = s.batch = 3;
	in.row_stride = 5;
	c.row_stride = 3;
	memset(codes, 0xAA, sizeof codes);
	assert_int_equal(fp8conv_amax(context, &in, amax, NULL), 0);
	assert_true(amax[0] == 4 && amax[1] == 14 && amax[2] == 448);
	assert_int_equal(fp8conv_quantize(context, recipe, FP8CONV_W, &in, &q, NULL), 0);
	assert_true(scales[0] == 1 / 112.0f && scales[1] == 1 / 32.0f && scales[2] == 1);
	assert_int_equal(codes[0][0][2], 0xAA);
	assert_int_equal(codes[1][0][0], 0xFE); /* -448 */
	assert_int_equal(fp8conv_dequantize(context, &q, &out, NULL), 0);
	assert_true(y[1][0][0] == -14 && y[1][0][1] == 7 && y[2][1][1] == 448 && y[2][0][0] == 0);
	fp8conv_context_destroy(context);
}

/* Codes past the caches on three threads, and band by band on one: where they are not aligned. */
static void bytes_do_not_depend_on_threads_or_place(void **state)
{
	static const char *const names[] = { "blockwise", "channelwise", "current", "mxfp8" };
	enum { ROWS = 2100, COLUMNS = 4096, N = ROWS * COLUMNS };
	struct fp8conv_context *contexts[] = { open_context("auto", 1), open_context("auto", 3) };
	uint8_t *room[] = { aligned_alloc(4096, N + 4096), aligned_alloc(4096, N + 4096) };
	struct input in = { 0 };
	struct fp8conv_tensor x;

	(void)state;
	input_normal(&in, DT_BF16, ROWS, COLUMNS, 5);
	x = input_tensor(&in);
	for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
		struct both b[2];

		for (int i = 0; i < 2; i++) {
			const struct fp8conv_recipe *r = recipe_of(contexts[i], names[n], NULL);

			both_init(&b[i], r, FP8CONV_W, ROWS, COLUMNS, FP8CONV_COMPACT);
			free(b[i].codes[0].data);
			b[i].codes[0].data = room[i] + (i ? 0 : 16);
			b[i].q.columnwise = b[i].q.columnwise_scale_inv = NULL;
			assert_int_equal(
				fp8conv_quantize(contexts[i], r, FP8CONV_W, &x, &b[i].q, NULL), 0);
		}
		assert_memory_equal(b[0].codes[0].data, b[1].codes[0].data, N);
		assert_memory_equal(b[0].scales[0].data, b[1].scales[0].data, b[0].scales[0].bytes);
		assert_int_equal(b[0].q.saturated, b[1].q.saturated);
		for (int i = 0; i < 2; i++) {
			b[i].codes[0].data = NULL;
			both_release(&b[i]);
		}
	}
	for (int i = 0; i < 2; i++) {
		free(room[i]);
		fp8conv_context_destroy(contexts[i]);
	}
	free(in.data);
}

static void wants(int code, const struct fp8conv_error *error, const char *words)
{
	if (code != FP8CONV_USAGE || error->code != code || !strstr(error->message, words))
		fail_msg("%d, %s: not %s", code, error->message, words);
}

/* One wrong member of x, of the codes or of the scales. */
static const struct {
	size_t at; /* of the member to change, in x, codes, scales */
	size_t value;
	int of;
	bool is_int;
	const char *words;
} wrong_tensors[] = {
#define AT(member) offsetof(struct fp8conv_tensor, member)
	{ AT(size), 8, 0, false, "x has the size 8" },
	{ AT(data), 0, 0, false, "x: data is NULL" },
	{ AT(bytes), 65535, 0, false, "takes 65536 bytes, 65535 are there" },
	{ AT(dtype), 77, 0, true, "x: dtype is 77" },
	{ AT(dtype), FP8CONV_E4M3, 0, true, "x has elements of F8_E4M3" },
	{ AT(device), FP8CONV_CUDA(3), 0, true, "x is on CUDA device 3" },
	{ AT(row_stride), 127, 0, false, "x: row_stride is 127" },
	{ AT(row_stride), SIZE_MAX / 2, 0, false, "is too large" },
	{ AT(batch), 1 << 24, 0, false, "rowwise has the shape (1, 128, 128)" },
	{ AT(batch), SIZE_MAX / 8, 0, false, "x: batch is " },
	{ AT(rows), SIZE_MAX, 0, false, "is too large" },
	{ AT(device), (size_t)-1, 0, true, "x: device is -1" },
	{ AT(device), FP8CONV_CUDA(0), 1, true, "rowwise is on CUDA device 0, expected" },
	{ AT(device), FP8CONV_CUDA(0), 2, true, "rowwise_scale_inv is on CUDA device 0" },
	{ AT(row_stride), 64, 1, false, "rowwise: row_stride is 64, less than 128" },
	{ AT(data), 0, 1, false, "rowwise: data is NULL" },
	{ AT(data), 0, 2, false, "rowwise_scale_inv: data is NULL" },
	{ AT(size), 72, 2, false, "rowwise_scale_inv has the size 72" },
	{ AT(batch), 2, 0, false, "rowwise has the shape (1, 128, 128)" },
	{ AT(rows), 127, 1, false, "rowwise has the shape (1, 127, 128), expected (1, 128" },
	{ AT(dtype), FP8CONV_E5M2, 1, true, "elements of F8_E5M2, expected F8_E4M3" },
	{ AT(bytes), 16383, 1, false, "rowwise: (1, 128, 128) of F8_E4M3 takes 16384" },
	{ AT(rows), 2, 2, false, "rowwise_scale_inv has the shape" },
	{ AT(dtype), FP8CONV_E8M0, 2, true, "rowwise_scale_inv has elements of F8_E8M0" },
	{ AT(bytes), 3, 2, false, "takes 4 bytes, 3 are there" },
};

static void wrong_tensors_are_refused(void **state)
{
	static float data[128 * 128];
	static uint8_t room[128 * 128];
	struct fp8conv_context *context = open_context("auto", 1);
	const struct fp8conv_recipe *recipe = recipe_of(context, "blockwise", NULL);
	const struct fp8conv_tensor x = tensor(data, FP8CONV_F32, 128, 128),
				    codes = tensor(room, FP8CONV_E4M3, 128, 128),
				    scales = tensor(data, FP8CONV_F32, 1, 1);

	(void)state;
	for (size_t i = 0; i < sizeof wrong_tensors / sizeof *wrong_tensors; i++) {
		struct fp8conv_tensor t[] = { x, codes, scales };
		struct fp8conv_quantized q = { .size = sizeof q,
					       .rowwise = &t[1],
					       .rowwise_scale_inv = &t[2] };
		struct fp8conv_error error;
		char *member = (char *)&t[wrong_tensors[i].of] + wrong_tensors[i].at;

		memcpy(member,
		       wrong_tensors[i].is_int ? (void *)&(int){ (int)wrong_tensors[i].value }
					       : (void *)&wrong_tensors[i].value,
		       wrong_tensors[i].is_int ? sizeof(int) : sizeof(size_t));
		wants(fp8conv_quantize(context, recipe, FP8CONV_W, &t[0], &q, &error), &error,
		      wrong_tensors[i].words);
	}
	fp8conv_context_destroy(context);
}

static void wrong_arguments_are_refused(void **state)
{
	struct fp8conv_context *context = open_context("auto", 1), *none;
	const struct fp8conv_recipe *recipe = recipe_of(context, "delayed", NULL), *other;
	struct fp8conv_options options = { sizeof options, -1, NULL };
	struct fp8conv_tensor x = tensor((float[1]){ 1 }, FP8CONV_F32, 1, 1);
	struct fp8conv_quantized q = { .size = sizeof q };
	struct fp8conv_autocast cast = { .size = sizeof cast, .enabled = 1 };
	struct fp8conv_error e;
	struct fp8conv_state *s;

	(void)state;
	wants(fp8conv_context_create(&options, &none, &e), &e, "threads is -1");
	options.threads = 1, options.backend = "avx3";
	wants(fp8conv_context_create(&options, &none, &e), &e, "unknown backend 'avx3'");
	wants(fp8conv_context_create(NULL, NULL, &e), &e, "context is NULL");
	wants(fp8conv_recipe_get(NULL, "delayed", NULL, &other, &e), &e, "context is NULL");
	wants(fp8conv_recipe_get(context, NULL, NULL, &other, &e), &e, "name is NULL");
	wants(fp8conv_recipe_get(context, "delay", NULL, &other, &e), &e, "'delayed'");
	wants(fp8conv_recipe_get(context, "mxfp8", "{\"margin\": 1}", &other, &e), &e, "margin");
	wants(fp8conv_recipe_get(context, "delayed", "{\"margn\": 1}", &other, &e), &e, "'margin'");
	wants(fp8conv_recipe_get(context, "delayed", "[1]", &other, &e), &e, "not a JSON object");
	wants(fp8conv_recipe_get(context, "delayed", "{\"amax-algo\": 3}", &other, &e), &e,
	      "'max'");
	wants(fp8conv_quantize(context, NULL, 0, &x, &q, &e), &e, "recipe is NULL");
	wants(fp8conv_quantize(context, recipe, 9, &x, &q, &e), &e, "role is 9");
	wants(fp8conv_quantize(context, recipe, 0, NULL, &q, &e), &e, "x is NULL");
	wants(fp8conv_quantize(context, recipe, 0, &x, NULL, &e), &e, "out is NULL");
	wants(fp8conv_quantize(context, recipe, 0, &x, &q, &e), &e, "out has no copy");
	q.rowwise = &x;
	wants(fp8conv_quantize(context, recipe, 0, &x, &q, &e), &e, "rowwise has elements of F32");
	wants(fp8conv_dequantize(context, &q, &x, &e), &e, "scale_inv is NULL");
	wants(fp8conv_amax(context, &x, NULL, &e), &e, "amax is NULL");
	wants(fp8conv_state_create(context, recipe, 0, 0, &s, &e), &e, "n_gemms is 0");
	wants(fp8conv_state_create(context, recipe, 2, 1, &s, &e), &e, "mode is 2");
	wants(fp8conv_state_quantize(NULL, 0, &x, NULL, &e), &e, "state is NULL");
	wants(fp8conv_context_enter(context, &cast, &e), &e, "recipe is NULL");
	assert_int_equal(fp8conv_state_create(context, recipe, 0, 1, &s, NULL), 0);
	wants(fp8conv_state_quantize(s, 3, &x, NULL, &e), &e, "slot is 3 of 3");
	fp8conv_state_destroy(s);
	fp8conv_state_destroy(NULL);
	fp8conv_context_destroy(context);
	fp8conv_context_destroy(NULL);
}

/* A second thread, while the first one is in the reduction of the caller. */
static int meanwhile(void *group, float *values, size_t n)
{
	struct fp8conv_error error;
	float amax;
	struct fp8conv_tensor x = tensor(&amax, FP8CONV_F32, 1, 1);

	(void)values, (void)n;
	wants(fp8conv_amax(group, &x, &amax, &error), &error, "in use by another call");
	return 0;
}

static void *many_calls(void *argument)
{
	struct fp8conv_context *context = open_context("auto", 2);
	struct fp8conv_autocast cast = { .size = sizeof cast,
					 .calibrating = 1,
					 .recipe = recipe_of(context, "delayed", NULL),
					 .reduce_max = meanwhile,
					 .group = context };
	const struct fp8conv_recipe *recipe = recipe_of(context, "mxfp8", NULL);
	struct input in = { 0 };
	struct fp8conv_tensor x;
	struct fp8conv_state *s;
	struct both b;

	(void)argument;
	input_normal(&in, DT_BF16, 256, 512, 3);
	x = input_tensor(&in);
	assert_int_equal(fp8conv_state_create(context, cast.recipe, 0, 1, &s, NULL), 0);
	for (int i = 0; i < 20; i++) {
		both_init(&b, recipe, FP8CONV_X, 256, 512, FP8CONV_SWIZZLED);
		assert_int_equal(fp8conv_context_enter(context, &cast, NULL), 0);
		assert_int_equal(fp8conv_quantize(context, recipe, FP8CONV_X, &x, &b.q, NULL), 0);
		assert_int_equal(fp8conv_state_quantize(s, 0, &x, NULL, NULL), 0);
		assert_int_equal(fp8conv_context_exit(context, NULL), 0);
		both_release(&b);
	}
	fp8conv_state_destroy(s);
	fp8conv_context_destroy(context);
	free(in.data);
	return NULL;
}

static void four_threads_have_a_context_each(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, many_calls, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Every backend on the CPU supports every recipe, by exact emulation. */
static void recipes_are_supported(void **state)
{
	static const char *const names[] = { "blockwise", "channelwise", "current", "delayed",
					     "mxfp8" };
	struct fp8conv_context *context = open_context("cpu", 1);

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_int_equal(
			fp8conv_supports(context, recipe_of(context, names[i], NULL), NULL), 0);
	/* an option of all roles leaves each its tile */
	for (int role = FP8CONV_X; role <= FP8CONV_GRAD_INPUT; role++) {
		struct fp8conv_copy copy = { .size = sizeof copy, .role = role };
		struct fp8conv_shape shape = { .size = sizeof shape };

		assert_int_equal(fp8conv_scale_shape(recipe_of(context, "blockwise",
							       "{\"fp8-format\": \"e5m2\"}"),
						     &copy, 256, 256, &shape, NULL),
				 0);
		assert_int_equal(shape.block_rows, role == FP8CONV_W ? 128 : 1);
		assert_int_equal(shape.codes_dtype, FP8CONV_E5M2);
	}
	assert_ptr_equal(recipe_of(context, "mxfp8", NULL), recipe_of(context, "mxfp8", "{}"));
	assert_string_equal(fp8conv_version(), FP8CONV_VERSION);
	fp8conv_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histories_of_40_steps_equal_the_formula),
		cmocka_unit_test(contexts_nest_and_a_lost_rank_changes_nothing),
		cmocka_unit_test(a_stack_is_quantized_matrix_by_matrix),
		cmocka_unit_test(bytes_do_not_depend_on_threads_or_place),
		cmocka_unit_test(wrong_tensors_are_refused),
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(four_threads_have_a_context_each),
		cmocka_unit_test(recipes_are_supported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
