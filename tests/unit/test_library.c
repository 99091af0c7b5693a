/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared library, called as a user's program does: the golden vectors of quantizers in every
 * layout, and what dequantizing makes of them; who may use a context; the layout of public structs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fp8conv.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "num/scale_grid.h"
#include "support/golden.h"
#include "support/library_use.h"
#include "support/kernel_parity.h"

static void golden_copy(const struct text *g, const struct both *b, bool columnwise)
{
	const struct fp8conv_tensor *scales = &b->scales[columnwise];
	int field = columnwise ? FIELD_COLUMNWISE : FIELD_ROWWISE;
	const char *want = g->fields[field + 1 + b->q.layout];

	if (!strcmp(want, "-"))
		want = g->fields[field + 1 + FP8CONV_PADDED];
	if (!hash_is(g->fields[field], b->codes[columnwise].data, b->codes[columnwise].bytes))
		fail_msg("%s:%d: other codes, copy %d", g->name, g->line_no, columnwise);
	if (!hash_is(want, scales->data, scales->bytes))
		fail_msg("%s:%d: other scale_inv, copy %d, layout %d", g->name, g->line_no,
			 columnwise, b->q.layout);
	assert_int_equal(((unsigned char *)scales->data)[scales->bytes], 0xA5);
}

/* The value of a code, and of a scale, by their definitions. */
static float code_value(int dtype, unsigned code)
{
	int m_bits = dtype == FP8CONV_E4M3 ? 3 : 2, bias = dtype == FP8CONV_E4M3 ? 7 : 15;
	int e = (int)(code & 0x7F) >> m_bits, m = (int)code & ((1 << m_bits) - 1);
	float v = ldexpf((float)(e ? m + (1 << m_bits) : m), (e ? e : 1) - bias - m_bits);

	if (dtype == FP8CONV_E4M3 ? (code & 0x7F) == 0x7F : (code & 0x7F) > 0x7C)
		return NAN;
	return code & 0x80 ? -v : v;
}

static float scale_value(const struct fp8conv_tensor *scales, size_t i)
{
	if (scales->dtype == FP8CONV_F32)
		return ((float *)scales->data)[i];
	return ldexpf(1, ((uint8_t *)scales->data)[i] - 127);
}

/* The values of the copies in compact layout, element by element. */
static float value_at(const struct both *b, bool columnwise, size_t row, size_t col)
{
	const struct fp8conv_tensor *codes = &b->codes[columnwise],
				    *scales = &b->scales[columnwise];
	size_t i = columnwise ? col : row, j = columnwise ? row : col;
	size_t at = columnwise && scales->dtype == FP8CONV_F32 ? i * codes->columns + j
							       : row * codes->columns + col;
	size_t block_row = b->q.block_rows ? i / b->q.block_rows : 0,
	       block_col = b->q.block_columns ? j / b->q.block_columns : 0;

	return code_value(codes->dtype, ((uint8_t *)codes->data)[at]) *
	       scale_value(scales, block_row * scales->columns + block_col);
}

/* What dequantizing gives, of one copy; `want` has the values. */
static void check_values(struct fp8conv_context *context, const struct both *b, bool columnwise,
			 const float *want)
{
	size_t rows = b->codes[0].rows, columns = b->codes[0].columns;
	float *got = malloc(rows * columns * sizeof *got + 4);
	struct fp8conv_tensor y = tensor(got, FP8CONV_F32, rows, columns);
	struct fp8conv_quantized q = b->q;
	struct fp8conv_error error;

	y.bytes = rows * columns * sizeof *got;
	if (columnwise)
		q.rowwise = q.rowwise_scale_inv = NULL;
	if (fp8conv_dequantize(context, &q, &y, &error))
		fail_msg("%s", error.message);
	for (size_t i = 0; i < rows * columns; i++)
		if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i])))
			fail_msg("copy %d, layout %d, element %zu: %a, not %a", columnwise,
				 q.layout, i, (double)got[i], (double)want[i]);
	free(got);
}

/* Quantizes by a state of the slot: with the golden scale and h[0], where it has them. */
static int quantize_by_state(const struct text *g, struct fp8conv_context *context,
			     const struct fp8conv_tensor *x, struct both *b,
			     struct fp8conv_error *error)
{
	bool backward = !strcmp(g->fields[FIELD_MODE], "backward");
	size_t slot = text_number(g->fields[FIELD_SLOT]), n_slots = backward ? 4 : 6;
	bool delayed = strcmp(g->fields[FIELD_SCALE], "-") != 0;
	struct fp8conv_history h = { .size = sizeof h };
	float amax[6] = { 0 }, scale[6] = { 1, 1, 1, 1, 1, 1 };
	struct fp8conv_state *state;
	int rc;

	assert_int_equal(
		fp8conv_state_create(context,
				     recipe_of(context, g->fields[FIELD_RECIPE],
					       delayed ? "{\"amax-history-len\": 1}" : NULL),
				     backward, 2, &state, NULL),
		0);
	assert_int_equal(fp8conv_history_get(state, &h, NULL), 0);
	assert_int_equal(h.n_slots, delayed ? n_slots : 0);
	if (delayed) {
		amax[slot] = f32_from_bits(text_bits(g->fields[FIELD_BEFORE]));
		scale[slot] = f32_from_bits(text_bits(g->fields[FIELD_SCALE]));
		h.amax = amax;
		h.scale = scale;
		assert_int_equal(fp8conv_history_set(state, &h, NULL), 0);
	}
	rc = fp8conv_state_quantize(state, slot, x, &b->q, error);
	if (delayed) {
		assert_int_equal(fp8conv_history_get(state, &h, NULL), 0);
		assert_int_equal(f32_bits(amax[slot]), text_bits(g->fields[FIELD_AFTER]));
	}
	fp8conv_state_destroy(state);
	return rc;
}

static int golden_role(const struct text *g)
{
	size_t slot = text_number(g->fields[FIELD_SLOT]);

	return (int)(strcmp(g->fields[FIELD_MODE], "backward") != 0
			     ? slot % 3
			     : FP8CONV_GRAD_OUTPUT + slot % 2);
}

/* Each layout of a golden slot, and each copy read back. */
static void check_slot(const struct text *g, const struct input *in, void *place)
{
	struct fp8conv_context *context = place;
	bool by_role = !strcmp(g->fields[FIELD_SCALE], "-");
	const struct fp8conv_recipe *recipe = recipe_of(context, g->fields[FIELD_RECIPE], NULL);
	struct fp8conv_tensor x = input_tensor(in);
	float *want[2] = { malloc(in->rows * in->cols * sizeof(float)),
			   malloc(in->rows * in->cols * sizeof(float)) };

	for (int layout = FP8CONV_COMPACT; layout <= FP8CONV_SWIZZLED; layout++) {
		struct fp8conv_error error;
		struct both b;

		both_init(&b, recipe, golden_role(g), in->rows, in->cols, layout);
		if (quantize_by_state(g, context, &x, &b, &error))
			fail_msg("%s:%d: %s", g->name, g->line_no, error.message);
		assert_int_equal(b.q.nonfinite, text_number(g->fields[FIELD_NONFINITE]));
		assert_int_equal(b.q.saturated, text_number(g->fields[FIELD_SATURATED]));
		for (int copy = 0; copy < 2; copy++) {
			golden_copy(g, &b, copy);
			for (size_t i = 0; layout == FP8CONV_COMPACT && i < in->rows * in->cols;
			     i++)
				want[copy][i] = value_at(&b, copy, i / in->cols, i % in->cols);
			check_values(context, &b, copy, want[copy]);
		}
		b.q.columnwise = b.q.columnwise_scale_inv = NULL; /* band by band */
		memset(b.codes[0].data, 0x55, b.codes[0].bytes);
		assert_int_equal(
			by_role ? fp8conv_quantize(context, recipe, golden_role(g), &x, &b.q, NULL)
				: quantize_by_state(g, context, &x, &b, NULL),
			0);
		golden_copy(g, &b, false);
		assert_int_equal(b.q.saturated, text_number(g->fields[FIELD_SATURATED]));
		both_release(&b);
	}
	free(want[0]);
	free(want[1]);
}

static void quantizing_equals_the_golden_sums(void **state)
{
	struct fp8conv_context *context = open_context("auto", 3);

	(void)state;
	golden_slots_each(check_slot, context);
	fp8conv_context_destroy(context);
}

/* Row i of a copy, codes and scales, of the shape that the copy has as a rowwise one. */
static void same_row(const struct both *by_columns, const struct both *by_rows, size_t i,
		     bool along)
{
	const struct fp8conv_tensor *got = &by_columns->codes[1], *want = &by_rows->codes[0];

	for (size_t j = 0; j < want->columns; j++) {
		size_t at = along ? j * got->columns + i : i * got->columns + j;

		if (((uint8_t *)got->data)[at] != ((uint8_t *)want->data)[i * want->columns + j])
			fail_msg("code (%zu, %zu) of the transpose", i, j);
	}
}

/* The transpose, element by element, is quantized rowwise: the golden sums hold that.  A stack of
 * matrices of several panels, strips and chunks, with parts that are no whole vectors. */
static void check_columnwise(struct fp8conv_context *context, const char *name, int dtype)
{
	const struct fp8conv_recipe *recipe = recipe_of(context, name, NULL);
	enum { ROWS = 1333, COLS = 1091 };
	size_t size = dtype == FP8CONV_F32 ? 4 : 2;
	char *x = malloc(ROWS * COLS * size), *y = malloc(ROWS * COLS * size);
	struct fp8conv_tensor of_x = tensor(x, dtype, ROWS, COLS),
			      of_y = tensor(y, dtype, COLS, ROWS);
	struct both by_columns, by_rows;

	for (size_t i = 0; i < ROWS * COLS; i++) {
		float v = ldexpf((float)((i * 2654435761u >> 7) % 4001) - 2000, (int)(i % 29) - 20);
		uint32_t bits = f32_bits(v) >> (dtype == FP8CONV_F32 ? 0 : 16);

		memcpy(x + i * size, &bits, size);
		memcpy(y + (i % COLS * ROWS + i / COLS) * size, &bits, size);
	}
	both_init(&by_columns, recipe, FP8CONV_X, ROWS, COLS, FP8CONV_COMPACT);
	both_init(&by_rows, recipe, FP8CONV_X, COLS, ROWS, FP8CONV_COMPACT);
	by_columns.q.rowwise = by_columns.q.rowwise_scale_inv = NULL;
	by_rows.q.columnwise = by_rows.q.columnwise_scale_inv = NULL;
	assert_int_equal(fp8conv_quantize(context, recipe, FP8CONV_X, &of_x, &by_columns.q, NULL),
			 0);
	assert_int_equal(fp8conv_quantize(context, recipe, FP8CONV_X, &of_y, &by_rows.q, NULL), 0);
	for (size_t i = 0; i < COLS; i++)
		same_row(&by_columns, &by_rows, i, by_columns.scales[1].dtype == FP8CONV_E8M0);
	assert_int_equal(by_columns.scales[1].bytes, by_rows.scales[0].bytes);
	assert_memory_equal(by_columns.scales[1].data, by_rows.scales[0].data,
			    by_rows.scales[0].bytes);
	assert_int_equal(by_columns.q.saturated, by_rows.q.saturated);
	both_release(&by_columns);
	both_release(&by_rows);
	free(x);
	free(y);
}

static void a_columnwise_copy_is_the_rowwise_one_of_the_transpose(void **state)
{
	struct fp8conv_context *context = open_context("auto", 3);

	(void)state;
	for (int dtype = FP8CONV_F32; dtype <= FP8CONV_BF16; dtype++) {
		check_columnwise(context, "blockwise", dtype);
		check_columnwise(context, "mxfp8", dtype);
		check_columnwise(context, "channelwise", dtype);
		check_columnwise(context, "current", dtype);
	}
	fp8conv_context_destroy(context);
}

static void wants(int code, const struct fp8conv_error *error, const char *words)
{
	if (code != FP8CONV_USAGE || error->code != code || !strstr(error->message, words))
		fail_msg("%d, %s: not %s", code, error->message, words);
}

/* What a second thread finds while a call has the context. */
struct second {
	struct fp8conv_context *context;
	struct fp8conv_state *state;
	int codes[3];
	struct fp8conv_error errors[3];
};

static void *second_run(void *user)
{
	struct second *s = user;
	struct fp8conv_tensor x = tensor((float[1]){ 1 }, FP8CONV_F32, 1, 1);
	const struct fp8conv_recipe *recipe;
	float amax;

	s->codes[0] = fp8conv_amax(s->context, &x, &amax, &s->errors[0]);
	s->codes[1] = fp8conv_recipe_get(s->context, "mxfp8", NULL, &recipe, &s->errors[1]);
	s->codes[2] = fp8conv_state_quantize(s->state, 0, &x, NULL, &s->errors[2]);
	return NULL;
}

/* The reduction of a step is within a call. */
static int second_reduce(void *user, float *values, size_t n)
{
	pthread_t thread;

	(void)values, (void)n;
	return pthread_create(&thread, NULL, second_run, user) || pthread_join(thread, NULL);
}

static void a_second_thread_is_refused(void **state)
{
	struct second s = { .context = open_context("auto", 2) };
	const struct fp8conv_recipe *recipe = recipe_of(s.context, "delayed", NULL);
	struct fp8conv_tensor x = tensor((float[1]){ 1 }, FP8CONV_F32, 1, 1);
	struct fp8conv_autocast step = { .size = sizeof step,
					 .calibrating = 1,
					 .recipe = recipe,
					 .reduce_max = second_reduce,
					 .group = &s };

	(void)state;
	assert_int_equal(
		fp8conv_state_create(s.context, recipe, FP8CONV_FORWARD, 1, &s.state, NULL), 0);
	assert_int_equal(fp8conv_context_enter(s.context, &step, NULL), 0);
	assert_int_equal(fp8conv_state_quantize(s.state, 0, &x, NULL, NULL), 0);
	assert_int_equal(fp8conv_context_exit(s.context, NULL), 0);
	for (int i = 0; i < 3; i++)
		wants(s.codes[i], &s.errors[i], "the context is in use by another call");
	assert_int_equal(fp8conv_state_quantize(s.state, 0, &x, NULL, NULL), 0);
	fp8conv_state_destroy(s.state);
	fp8conv_context_destroy(s.context);
}

/* Used in a step or not, open or not. */
static void states_may_outlive_their_context(void **state)
{
	struct fp8conv_tensor x = tensor((float[1]){ 1 }, FP8CONV_F32, 1, 1);

	(void)state;
	for (int used = 0; used < 2; used++) {
		struct fp8conv_context *context = open_context("auto", 1);
		const struct fp8conv_recipe *recipe = recipe_of(context, "delayed", NULL);
		struct fp8conv_autocast step = { .size = sizeof step,
						 .calibrating = 1,
						 .recipe = recipe };
		struct fp8conv_state *states[2];
		struct fp8conv_error error;

		for (int i = 0; i < 2; i++)
			assert_int_equal(fp8conv_state_create(context, recipe, FP8CONV_BACKWARD, 1,
							      &states[i], NULL),
					 0);
		assert_int_equal(fp8conv_context_enter(context, &step, NULL), 0);
		if (used)
			assert_int_equal(fp8conv_state_quantize(states[0], 0, &x, NULL, NULL), 0);
		fp8conv_context_destroy(context);
		wants(fp8conv_state_quantize(states[0], 0, &x, NULL, &error), &error,
		      "the context is destroyed");
		fp8conv_state_destroy(states[0]);
		fp8conv_state_destroy(states[1]);
	}
}

/* What a program was compiled for stays where it is. */
static void public_structs_stay_as_they_are(void **state)
{
	(void)state;
#define SIZE(name, size)	assert_int_equal(sizeof(struct fp8conv_##name), size)
#define PLACE(name, member, at) assert_int_equal(offsetof(struct fp8conv_##name, member), at)
	SIZE(error, 1028), PLACE(error, message, 4);
	SIZE(options, 24), PLACE(options, threads, 8), PLACE(options, backend, 16);
	SIZE(tensor, 80), PLACE(tensor, data, 8), PLACE(tensor, bytes, 16);
	PLACE(tensor, dtype, 24), PLACE(tensor, device, 28), PLACE(tensor, batch, 32);
	PLACE(tensor, rows, 40), PLACE(tensor, columns, 48);
	PLACE(tensor, batch_stride, 56), PLACE(tensor, row_stride, 64);
	PLACE(tensor, stream, 72);
	SIZE(quantized, 80), PLACE(quantized, rowwise, 8), PLACE(quantized, rowwise_scale_inv, 16);
	PLACE(quantized, columnwise, 24), PLACE(quantized, columnwise_scale_inv, 32);
	PLACE(quantized, layout, 40), PLACE(quantized, block_rows, 48);
	PLACE(quantized, block_columns, 56), PLACE(quantized, saturated, 64);
	PLACE(quantized, nonfinite, 72);
	SIZE(copy, 24), PLACE(copy, role, 8), PLACE(copy, columnwise, 12), PLACE(copy, layout, 16);
	SIZE(shape, 64), PLACE(shape, codes_rows, 8), PLACE(shape, scale_rows, 24);
	PLACE(shape, block_rows, 40), PLACE(shape, codes_dtype, 56), PLACE(shape, scale_dtype, 60);
	SIZE(history, 40), PLACE(history, length, 8), PLACE(history, n_slots, 16);
	PLACE(history, amax, 24), PLACE(history, scale, 32);
	SIZE(autocast, 40), PLACE(autocast, enabled, 8), PLACE(autocast, calibrating, 12);
	PLACE(autocast, recipe, 16), PLACE(autocast, reduce_max, 24), PLACE(autocast, group, 32);
	SIZE(progress, 48), PLACE(progress, done, 8), PLACE(progress, total, 16);
	PLACE(progress, unit, 24), PLACE(progress, doing, 32), PLACE(progress, item, 40);
	SIZE(run, 64), PLACE(run, cancel, 8), PLACE(run, progress, 16), PLACE(run, log, 24);
	PLACE(run, user, 32), PLACE(run, output, 40), PLACE(run, output_size, 48);
	PLACE(run, status, 56);
	SIZE(item, 48), PLACE(item, name, 8), PLACE(item, dtype, 16), PLACE(item, n_dims, 24);
	PLACE(item, shape, 32), PLACE(item, data, 40);
	SIZE(model, 32), PLACE(model, config, 8), PLACE(model, n_tensors, 16);
	PLACE(model, tensors, 24);
	SIZE(entry, 72), PLACE(entry, action, 8), PLACE(entry, recipe, 16);
	PLACE(entry, reason, 24), PLACE(entry, source, 32), PLACE(entry, n_outputs, 40);
	PLACE(entry, outputs, 48), PLACE(entry, n_needed, 56), PLACE(entry, needed, 64);
	SIZE(conversion, 56), PLACE(conversion, tensor, 8), PLACE(conversion, data, 16);
	PLACE(conversion, bytes, 24), PLACE(conversion, outputs, 32);
	PLACE(conversion, scales_by_columns, 40), PLACE(conversion, device, 44);
	PLACE(conversion, stream, 48);
	SIZE(amax_module, 56), PLACE(amax_module, name, 8), PLACE(amax_module, attention, 16);
	PLACE(amax_module, n_passes, 24), PLACE(amax_module, stride, 32);
	PLACE(amax_module, amax, 40), PLACE(amax_module, tokens, 48);
	SIZE(amax_file, 104), PLACE(amax_file, checkpoint, 8), PLACE(amax_file, model, 16);
	PLACE(amax_file, precision, 24), PLACE(amax_file, backend, 32), PLACE(amax_file, data, 40);
	PLACE(amax_file, passes, 56), PLACE(amax_file, history_len, 80);
	PLACE(amax_file, n_modules, 88), PLACE(amax_file, modules, 96);
	assert_int_equal(FP8CONV_E8M0, 5);
	assert_int_equal(FP8CONV_GRAD_INPUT, 4);
	assert_int_equal(FP8CONV_CUDA(0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantizing_equals_the_golden_sums),
		cmocka_unit_test(a_columnwise_copy_is_the_rowwise_one_of_the_transpose),
		cmocka_unit_test(a_second_thread_is_refused),
		cmocka_unit_test(states_may_outlive_their_context),
		cmocka_unit_test(public_structs_stay_as_they_are),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
