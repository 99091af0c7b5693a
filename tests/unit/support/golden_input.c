/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/golden_input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/golden_text.h"

uint64_t splitmix64(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

static uint32_t normal_bits(uint64_t z)
{
	int u = (int)((z & 0xFFFF) + (z >> 16 & 0xFFFF) + (z >> 32 & 0xFFFF) + (z >> 48)) - 131070;
	uint32_t magnitude = (uint32_t)abs(u);
	int e = 0;

	if (u == 0)
		return 0;
	while (magnitude >> (e + 1))
		e++;
	return (uint32_t)(u < 0) << 31 | (uint32_t)(e + 105) << 23 |
	       (magnitude << (23 - e) & 0x7FFFFF) | (uint32_t)(z >> 13 & 0x7F);
}

static uint32_t f16_truncate(uint32_t bits)
{
	int e = (int)(bits >> 23 & 0xFF) - 112;
	uint32_t m = bits & 0x7FFFFF, sign = bits >> 16 & 0x8000;

	if (e >= 31)
		return sign | 0x7BFF;
	if (e <= 0)
		return sign | (14 - e > 31 ? 0 : (m | 0x800000) >> (14 - e));
	return sign | (uint32_t)e << 10 | m >> 13;
}

/* Sign, exponent and mantissa of a type, as masks. */
struct masks {
	uint32_t sign, exponent, mantissa;
};

static struct masks masks_of(enum dtype dtype)
{
	if (dtype == DT_F32)
		return (struct masks){ 0x80000000, 0x7F800000, 0x7FFFFF };
	if (dtype == DT_BF16)
		return (struct masks){ 0x8000, 0x7F80, 0x7F };
	return (struct masks){ 0x8000, 0x7C00, 0x3FF };
}

static uint32_t fill_bits(const struct input *in, const char *fill, size_t row, size_t col)
{
	uint64_t z = splitmix64(in->seed, row * in->cols + col);
	struct masks m = masks_of(in->dtype);
	uint32_t bits = normal_bits(z);

	if (!strcmp(fill, "bits")) {
		bits = (uint32_t)(z >> (64 - 8 * in->size));
		return (bits & m.exponent) == m.exponent ? bits & ~(m.exponent & ~(m.exponent >> 1))
							 : bits;
	}
	if (!strcmp(fill, "outlier") && col % 67 == 5 && bits)
		bits += 6u << 23;
	if (!strcmp(fill, "spread") && bits)
		bits += (uint32_t)((int)(splitmix64(in->seed ^ 0xFFFFFFFF,
						    row / 128 * 65536 + col / 32) >>
					 59) -
				   16)
			<< 23;
	return in->dtype == DT_F32 ? bits : in->dtype == DT_BF16 ? bits >> 16 : f16_truncate(bits);
}

static uint32_t overlay_bits(const struct input *in, const char *kind, size_t row, size_t col)
{
	uint64_t z = splitmix64(in->seed, row * in->cols + col);
	struct masks m = masks_of(in->dtype);
	uint32_t sign = z >> 63 ? m.sign : 0, f = (uint32_t)z & m.mantissa;

	if (!strcmp(kind, "zero"))
		return (row + col) & 1 ? m.sign : 0;
	if (!strcmp(kind, "denormal"))
		return sign | f;
	if (!strcmp(kind, "tiny"))
		return sign | (f & 1);
	if (!strcmp(kind, "max"))
		return sign | ((m.exponent | m.mantissa) - (m.mantissa + 1));
	if (!strcmp(kind, "inf"))
		return sign | m.exponent;
	assert_string_equal(kind, "nan");
	return sign | m.exponent | f | 1;
}

static void input_set(const struct input *in, size_t row, size_t col, uint32_t bits)
{
	memcpy(in->data + (row * in->cols + col) * in->size, &bits, in->size);
}

static void overlay(const struct input *in, char *text)
{
	size_t row, col, rows, cols;
	char *at = strchr(text, '@');

	assert_non_null(at);
	*at = '\0';
	assert_int_equal(sscanf(at + 1, "%zu,%zu,%zu,%zu", &row, &col, &rows, &cols), 4);
	for (size_t r = row; r < row + rows; r++)
		for (size_t c = col; c < col + cols; c++)
			input_set(in, r, c, overlay_bits(in, text, r, c));
}

void input_init(struct input *in, char **fields)
{
	char *rest = NULL;

	free(in->data);
	*in = (struct input){ .dtype = golden_dtype(fields[0]),
			      .rows = text_number(fields[1]),
			      .cols = text_number(fields[2]),
			      .seed = text_number(fields[3]) };
	in->size = dtype_bits(in->dtype) / 8;
	in->data = malloc(in->rows * in->cols * in->size);
	assert_non_null(in->data);
	for (size_t r = 0; r < in->rows; r++)
		for (size_t c = 0; c < in->cols; c++)
			input_set(in, r, c, fill_bits(in, fields[4], r, c));
	if (strcmp(fields[5], "-")) {
		for (char *one = strtok_r(fields[5], "+", &rest); one;
		     one = strtok_r(NULL, "+", &rest))
			overlay(in, one);
	}
	assert_true(hash_is(fields[6], in->data, in->rows * in->cols * in->size));
}

void input_normal(struct input *in, enum dtype dtype, size_t rows, size_t cols, uint64_t seed)
{
	free(in->data);
	*in = (struct input){ dtype, rows, cols, dtype_bits(dtype) / 8, seed, NULL };
	in->data = malloc(rows * cols * in->size);
	assert_non_null(in->data);
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < cols; c++)
			input_set(in, r, c, fill_bits(in, "normal", r, c));
}

struct matrix input_matrix(const struct input *in)
{
	return (struct matrix){ in->data, in->dtype, in->rows, in->cols, in->cols };
}
