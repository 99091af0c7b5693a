/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared library, called as a user's program does: the golden vectors of quantizers in every
 * layout, and what dequantizing makes of them; arguments that are wrong; the layout of public
 * structs.
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
#include "support/golden_input.h"
#include "support/golden_text.h"
#include "support/skipped.h"

enum {
	FIELD_RECIPE = 1,
	FIELD_MODE,
	FIELD_SLOT,
	FIELD_SCALE,
	FIELD_BEFORE,
	FIELD_AFTER,
	FIELD_SATURATED,
	FIELD_NONFINITE,
	FIELD_ROWWISE,
	FIELD_COLUMNWISE = FIELD_ROWWISE + 4,
};

static struct fp8conv_tensor tensor(void *data, int dtype, size_t rows, size_t columns)
{
	return (struct fp8conv_tensor){ .size = sizeof(struct fp8conv_tensor),
					.data = data,
					.dtype = dtype,
					.rows = rows,
					.columns = columns };
}

static struct fp8conv_tensor input_tensor(const struct input *in)
{
	return tensor(in->data,
		      in->dtype == DT_F32    ? FP8CONV_F32
		      : in->dtype == DT_BF16 ? FP8CONV_BF16
					     : FP8CONV_F16,
		      in->rows, in->cols);
}

static struct fp8conv_context *open_context(const char *backend, int threads)
{
	struct fp8conv_options options = { sizeof options, threads, backend };
	struct fp8conv_context *context = NULL;
	struct fp8conv_error error;

	if (fp8conv_context_create(&options, &context, &error))
		fail_msg("%s", error.message);
	return context;
}

static const struct fp8conv_recipe *recipe_of(struct fp8conv_context *context, const char *name,
					      const char *options)
{
	const struct fp8conv_recipe *recipe = NULL;
	struct fp8conv_error error;

	if (fp8conv_recipe_get(context, name, options, &recipe, &error))
		fail_msg("%s", error.message);
	return recipe;
}

/* Both copies of a matrix, in memory of this test. */
struct both {
	struct fp8conv_tensor codes[2], scales[2];
	struct fp8conv_quantized q;
};

static void both_init(struct both *b, const struct fp8conv_recipe *recipe, int role, size_t rows,
		      size_t columns, int layout)
{
	for (int i = 0; i < 2; i++) {
		struct fp8conv_copy copy = { sizeof copy, role, i, layout };
		struct fp8conv_shape s = { .size = sizeof s };
		size_t n;

		assert_int_equal(fp8conv_scale_shape(recipe, &copy, rows, columns, &s, NULL), 0);
		n = s.scale_rows * s.scale_columns * (s.scale_dtype == FP8CONV_E8M0 ? 1 : 4);
		b->codes[i] = tensor(malloc(rows * columns), s.codes_dtype, s.codes_rows,
				     s.codes_columns);
		b->codes[i].bytes = rows * columns;
		b->scales[i] = tensor(malloc(n + 1), s.scale_dtype, s.scale_rows, s.scale_columns);
		b->scales[i].bytes = n;
		memset(b->scales[i].data, 0xA5, n + 1);
	}
	b->q = (struct fp8conv_quantized){ .size = sizeof b->q,
					   .rowwise = &b->codes[0],
					   .rowwise_scale_inv = &b->scales[0],
					   .columnwise = &b->codes[1],
					   .columnwise_scale_inv = &b->scales[1],
					   .layout = layout };
}

static void both_release(struct both *b)
{
	for (int i = 0; i < 2; i++) {
		free(b->codes[i].data);
		free(b->scales[i].data);
	}
}

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

/* Each layout of a golden slot, and each copy read back. */
static void check_slot(const struct text *g, struct fp8conv_context *context, int role,
		       const struct input *in)
{
	const struct fp8conv_recipe *recipe = recipe_of(context, g->fields[FIELD_RECIPE], NULL);
	struct fp8conv_tensor x = input_tensor(in);
	float *want[2] = { malloc(in->rows * in->cols * sizeof(float)),
			   malloc(in->rows * in->cols * sizeof(float)) };

	for (int layout = FP8CONV_COMPACT; layout <= FP8CONV_SWIZZLED; layout++) {
		struct fp8conv_error error;
		struct both b;

		both_init(&b, recipe, role, in->rows, in->cols, layout);
		if (fp8conv_quantize(context, recipe, role, &x, &b.q, &error))
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
		assert_int_equal(fp8conv_quantize(context, recipe, role, &x, &b.q, NULL), 0);
		golden_copy(g, &b, false);
		assert_int_equal(b.q.saturated, text_number(g->fields[FIELD_SATURATED]));
		both_release(&b);
	}
	free(want[0]);
	free(want[1]);
}

static int golden_role(const struct text *g)
{
	size_t slot = text_number(g->fields[FIELD_SLOT]);

	return (int)(strcmp(g->fields[FIELD_MODE], "backward") != 0
			     ? slot % 3
			     : FP8CONV_GRAD_OUTPUT + slot % 2);
}

static void quantizing_equals_the_golden_sums(void **state)
{
	struct fp8conv_context *context = open_context("auto", 3);
	struct input in = { 0 };
	size_t n_slots = 0;
	struct text g;

	(void)state;
	text_open(&g, GOLDEN_DIR "quantizer.txt");
	while (text_next(&g)) {
		if (!strcmp(g.fields[0], "input")) {
			input_init(&in, g.fields + 1);
		} else if (!strcmp(g.fields[FIELD_SCALE], "-")) {
			check_slot(&g, context, golden_role(&g), &in);
			n_slots++;
		}
	}
	free(in.data);
	fp8conv_context_destroy(context);
	assert_true(n_slots >= 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantizing_equals_the_golden_sums),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
