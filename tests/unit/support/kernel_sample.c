/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/kernel_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "num/scale.h"

const enum dtype sample_dtypes[] = { DT_BF16, DT_F16, DT_F32 };

static uint64_t random_state = 0x9E3779B97F4A7C15u;

uint32_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

size_t random_below(size_t n)
{
	return random_bits() % n;
}

static float random_normal(void)
{
	float sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (float)(random_bits() >> 8) * 0x1p-24f - 0.5f;
	return sum;
}

#define PAGE 4096

static size_t guarded_size(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE + PAGE;
}

unsigned char *guarded_new(size_t size, int fill)
{
	size_t total = guarded_size(size);
	unsigned char *memory =
		mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	memset(memory, fill, total - PAGE);
	assert_int_equal(mprotect(memory + total - PAGE, PAGE, PROT_NONE), 0);
	return memory + total - PAGE - size;
}

void guarded_free(unsigned char *p, size_t size)
{
	munmap(p + size + PAGE - guarded_size(size), guarded_size(size));
}

static void element_set(void *data, enum dtype dtype, size_t i, float v)
{
	uint16_t half = dtype == DT_BF16 ? bf16_from_f32(v) : f16_from_f32(v);

	if (dtype == DT_F32)
		memcpy((char *)data + 4 * i, &v, 4);
	else
		memcpy((char *)data + 2 * i, &half, 2);
}

static float random_element(enum content content, size_t col)
{
	uint32_t bits = random_bits();

	if (content == TINY)
		return random_normal() * 0x1p-126f;
	if (content == WIDE && (bits & F32_INF) == F32_INF)
		return 1.0f;
	if (content == WIDE || content == ANY_BITS)
		return f32_from_bits(bits);
	return random_normal() * (col % 61 == 7 ? 50.0f : 1.0f);
}

static void sample_blocks(const struct sample *s)
{
	static const float specials[] = { 0.0f, 0x1p-133f, NAN, INFINITY, -INFINITY, 0x1p-24f };
	const struct matrix *x = &s->x;

	for (size_t i = 0; i < 6 && x->rows && x->cols; i++) {
		size_t row = random_below(x->rows), col = random_below(x->cols);
		size_t n_rows = i < 2 ? 140 : 1, n_cols = i < 2 ? 200 : 1;

		for (size_t r = row; r < x->rows && r < row + n_rows; r++)
			for (size_t c = col; c < x->cols && c < col + n_cols; c++)
				element_set(s->data, x->dtype, r * x->stride + c, specials[i]);
	}
}

size_t matrix_extent(size_t rows, size_t cols, size_t stride)
{
	return rows && cols ? (rows - 1) * stride + cols : 0;
}

struct sample sample_new(enum dtype dtype, size_t rows, size_t cols, enum content content)
{
	struct sample s = { .x = { .dtype = dtype, .rows = rows, .cols = cols, .stride = cols } };

	s.x.stride += random_below(2) ? random_below(70) : 0;
	s.element_size = dtype_bits(dtype) / 8;
	/* Up to the very end of memory, or a little before it so that no element is aligned. */
	s.size = matrix_extent(rows, cols, s.x.stride) * s.element_size +
		 (random_below(2) ? random_below(5) : 0);
	s.data = guarded_new(s.size, 0xFF);
	s.x.data = s.data;
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < cols; c++)
			element_set(s.data, dtype, r * s.x.stride + c, random_element(content, c));
	if (content == BLOCKS)
		sample_blocks(&s);
	return s;
}
