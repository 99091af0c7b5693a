/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/library_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fp8conv_tensor tensor(void *data, int dtype, size_t rows, size_t columns)
{
	return (struct fp8conv_tensor){ .size = sizeof(struct fp8conv_tensor),
					.data = data,
					.dtype = dtype,
					.rows = rows,
					.columns = columns };
}

struct fp8conv_tensor input_tensor(const struct input *in)
{
	return tensor(in->data,
		      in->dtype == DT_F32    ? FP8CONV_F32
		      : in->dtype == DT_BF16 ? FP8CONV_BF16
					     : FP8CONV_F16,
		      in->rows, in->cols);
}

struct fp8conv_context *open_context(const char *backend, int threads)
{
	struct fp8conv_options options = { sizeof options, threads, backend };
	struct fp8conv_context *context = NULL;
	struct fp8conv_error error;

	if (fp8conv_context_create(&options, &context, &error))
		fail_msg("%s", error.message);
	return context;
}

const struct fp8conv_recipe *recipe_of(struct fp8conv_context *context, const char *name,
				       const char *options)
{
	const struct fp8conv_recipe *recipe = NULL;
	struct fp8conv_error error;

	if (fp8conv_recipe_get(context, name, options, &recipe, &error))
		fail_msg("%s", error.message);
	return recipe;
}

void both_init(struct both *b, const struct fp8conv_recipe *recipe, int role, size_t rows,
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

void both_release(struct both *b)
{
	for (int i = 0; i < 2; i++) {
		free(b->codes[i].data);
		free(b->scales[i].data);
	}
}
