/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantizes a matrix by block scaling, and reads it back.
 *	cc quantize.c $(pkg-config --cflags --libs fp8conv) -lm && ./a.out
 */
#include <fp8conv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS	1024
#define COLUMNS 4096

static struct fp8conv_tensor matrix(void *data, int dtype, size_t rows, size_t columns)
{
	return (struct fp8conv_tensor){ .size = sizeof(struct fp8conv_tensor),
					.data = data,
					.dtype = dtype,
					.rows = rows,
					.columns = columns };
}

int main(void)
{
	float *w = malloc(ROWS * COLUMNS * sizeof *w), *back = malloc(ROWS * COLUMNS * sizeof *w);
	unsigned char *codes = malloc(ROWS * COLUMNS);
	struct fp8conv_tensor x = matrix(w, FP8CONV_F32, ROWS, COLUMNS),
			      y = matrix(back, FP8CONV_F32, ROWS, COLUMNS);
	struct fp8conv_tensor c = matrix(codes, FP8CONV_E4M3, ROWS, COLUMNS), s;
	struct fp8conv_quantized q = { .size = sizeof q, .rowwise = &c, .rowwise_scale_inv = &s };
	struct fp8conv_copy copy = { .size = sizeof copy, .role = FP8CONV_W };
	struct fp8conv_shape shape = { .size = sizeof shape };
	struct fp8conv_context *context = NULL;
	const struct fp8conv_recipe *recipe;
	struct fp8conv_error error = { 0 };
	void *scales = NULL;
	double noise = 0;

	for (size_t i = 0; i < ROWS * COLUMNS; i++)
		w[i] = sinf((float)i) * 0.02f;
	if (fp8conv_context_create(NULL, &context, &error) ||
	    fp8conv_recipe_get(context, "blockwise", NULL, &recipe, &error) ||
	    fp8conv_scale_shape(recipe, &copy, ROWS, COLUMNS, &shape, &error))
		goto out;
	scales = malloc(shape.scale_rows * shape.scale_columns * sizeof(float));
	s = matrix(scales, shape.scale_dtype, shape.scale_rows, shape.scale_columns);
	if (fp8conv_quantize(context, recipe, FP8CONV_W, &x, &q, &error) ||
	    fp8conv_dequantize(context, &q, &y, &error))
		goto out;
	for (size_t i = 0; i < ROWS * COLUMNS; i++)
		noise = fmax(noise, fabs(back[i] - w[i]));
	printf("%zu x %zu scales, largest error %g\n", shape.scale_rows, shape.scale_columns,
	       noise);
out:
	if (error.code)
		fprintf(stderr, "%s\n", error.message);
	fp8conv_context_destroy(context);
	free(scales), free(codes), free(back), free(w);
	return error.code;
}
