/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of attention by bf16 in tiles (Intel's AMX).
 *
 * A number is the sum of two of bf16, its upper 8 bits and the 8 bits below them, and a product is
 * the sum of three: all but that of both lower parts.  That loses less than 2^-14 of it (two parts
 * lose 2^-16 each, and the product left out is below 2^-15).
 *
 * A tile has 16 rows of 64 bytes.  One on the left has 16 rows of 32 numbers; one on the right has
 * 32 rows of 16 numbers, of which pairs are adjacent.  Both parts of those numbers are two tiles,
 * one behind the other, or 64 bytes each, side by side in a row.
 */
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <string.h>

#include "kernels/cpu/forward/attention.h"

#define STEP	  ATTENTION_STEP
#define TILE_ROWS 16
#define TILE_SIZE 1024

/* The instructions, as bytes: gcc 10, which builds the wheel, has no names for them.  Tiles are
 * numbers; memory begins at rsi, and rows are rdx bytes apart. */
#define TILE_OPERATION(prefix, opcode, operands) \
	".byte 0xC4, 0xE2, " prefix ", " opcode ", " operands
#define TILE_NAME(text)	 #text
#define TILE_TEXT(value) TILE_NAME(value)

#define TILE_CONFIGURE(from) \
	__asm__ volatile(TILE_OPERATION("0x78", "0x49", "0x06") : : "S"(from) : "memory")
#define TILE_RELEASE() __asm__ volatile(TILE_OPERATION("0x78", "0x49", "0xC0") : : : "memory")
#define TILE_ZERO(to)  __asm__ volatile(TILE_OPERATION("0x7B", "0x49", "0xC0 + 8 * " TILE_TEXT(to)))
#define TILE_LOAD(to, from, stride)                                                           \
	__asm__ volatile(TILE_OPERATION("0x7B", "0x4B", "0x04 + 8 * " TILE_TEXT(to) ", 0x16") \
			 :                                                                    \
			 : "S"(from), "d"(stride)                                             \
			 : "memory")
#define TILE_STORE(from, to, stride)                                                            \
	__asm__ volatile(TILE_OPERATION("0x7A", "0x4B", "0x04 + 8 * " TILE_TEXT(from) ", 0x16") \
			 :                                                                      \
			 : "S"(to), "d"(stride)                                                 \
			 : "memory")
/* to += left right */
#define TILE_MULTIPLY(to, left, right)                                          \
	__asm__ volatile(TILE_OPERATION("0x7A - 8 * " TILE_TEXT(right), "0x5C", \
					"0xC0 + 8 * " TILE_TEXT(to) " + " TILE_TEXT(left)))

/* The results are in tiles 0 to 3, two by two; the left factors in 4 and 5, the right ones in 6 and
 * 7. */
static void tiles_begin(void)
{
	struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t row_bytes[16];
		uint8_t rows[16];
	} config = { .palette = 1 };

	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = TILE_ROWS;
	}
	TILE_CONFIGURE(&config);
}

static void results_begin(void)
{
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
}

static inline void results_add(void)
{
	TILE_MULTIPLY(0, 4, 6);
	TILE_MULTIPLY(1, 4, 7);
	TILE_MULTIPLY(2, 5, 6);
	TILE_MULTIPLY(3, 5, 7);
}

/* Factors with both parts: 32 rows of 32 numbers, whose rows have a stride in bytes, and two tiles
 * of 32 rows of 16 numbers. */
struct factors {
	const char *left;
	size_t left_stride;
	const char *right, *right_2;
};

static inline void results_add_product(const struct factors *f)
{
	const char *left_2 = f->left + TILE_ROWS * f->left_stride;

	TILE_LOAD(4, f->left, f->left_stride);
	TILE_LOAD(5, left_2, f->left_stride);
	TILE_LOAD(6, f->right + TILE_SIZE, (size_t)64);
	TILE_LOAD(7, f->right_2 + TILE_SIZE, (size_t)64);
	results_add();
	TILE_LOAD(6, f->right, (size_t)64);
	TILE_LOAD(7, f->right_2, (size_t)64);
	results_add();
	TILE_LOAD(4, f->left + 64, f->left_stride);
	TILE_LOAD(5, left_2 + 64, f->left_stride);
	results_add();
}

/* Writes 32 rows of 32 results, or the first 16 columns of them; rows are `stride` elements
 * apart. */
static void results_write(float *y, size_t stride, bool both)
{
	float *y_2 = y + TILE_ROWS * stride;

	TILE_STORE(0, y, stride * sizeof *y);
	TILE_STORE(2, y_2, stride * sizeof *y);
	if (both) {
		TILE_STORE(1, y + 16, stride * sizeof *y);
		TILE_STORE(3, y_2 + 16, stride * sizeof *y);
	}
}

static inline __mmask16 first_16(size_t n)
{
	return (__mmask16)(n >= 16 ? 0xFFFF : (1u << n) - 1);
}

static inline __m512 upper_part(__m512 x)
{
	return _mm512_castsi512_ps(
		_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)0xFFFF0000)));
}

/* The parts of 32 numbers. */
struct parts {
	__m512i upper, lower;
};

static inline struct parts parts_of(__m512 x, __m512 x_2)
{
	__m512 upper = upper_part(x), upper_2 = upper_part(x_2);

	return (struct parts){ (__m512i)_mm512_cvtne2ps_pbh(upper_2, upper),
			       (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(x_2, upper_2),
							    _mm512_sub_ps(x, upper)) };
}

/* Returns the parts of the first n of 32 numbers; the others are 0. */
static inline struct parts parts_of_row(const float *x, size_t n)
{
	return parts_of(_mm512_maskz_loadu_ps(first_16(n), x),
			_mm512_maskz_loadu_ps(first_16(n > 16 ? n - 16 : 0), x + 16));
}

/* Packs n <= 16 keys into the columns of the tiles on the right, step by step of features. */
static void pack_keys(const struct attention *a, struct rows_in k, size_t n, uint32_t *to)
{
	for (size_t d = 0; d < a->head_dim; d += STEP, to += 2 * TILE_SIZE / sizeof *to) {
		memset(to, 0, (size_t)2 * TILE_SIZE);
		for (size_t t = 0; t < n; t++) {
			struct parts parts =
				parts_of_row(k.data + t * k.stride + d, a->head_dim - d);
			uint32_t upper[16], lower[16];

			memcpy(upper, &parts.upper, sizeof upper);
			memcpy(lower, &parts.lower, sizeof lower);
			for (size_t i = 0; i < 16; i++) {
				to[i * 16 + t] = upper[i];
				to[256 + i * 16 + t] = lower[i];
			}
		}
	}
}

/* Packs 16 columns of two values into a row of the tiles on the right. */
static void pack_pair(__m512 even, __m512 odd, uint32_t *to)
{
	const __m512i order =
		_mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
				 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	struct parts parts = parts_of(even, odd);

	_mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, parts.upper));
	_mm512_storeu_si512(to + 256, _mm512_permutexvar_epi16(order, parts.lower));
}

static __m512 value_or_0(const struct attention *a, struct rows_in v, size_t t, size_t col)
{
	if (t >= a->n_keys)
		return _mm512_setzero_ps();
	return _mm512_maskz_loadu_ps(first_16(a->value_dim - col), v.data + t * v.stride + col);
}

/* Both parts of the keys of 16 tokens, or of 32 tokens and 16 columns of values, are two tiles. */
static void pack(const struct attention *a, struct rows_in k, struct rows_in v)
{
	size_t head_stride = attention_head_stride(a->head_dim);
	uint32_t *to = (void *)a->values;

	for (size_t t = 0; t < attention_padded(a->n_keys); t += 16) {
		size_t left = t < a->n_keys ? a->n_keys - t : 0;

		pack_keys(a, (struct rows_in){ k.data + t * k.stride, k.stride },
			  left < 16 ? left : 16, (void *)(a->keys + t * head_stride));
	}
	for (size_t first = 0; first < attention_padded(a->n_keys); first += STEP)
		for (size_t col = 0; col < a->value_dim; col += 16) {
			for (size_t t = first; t < first + STEP; t += 2, to += 16)
				pack_pair(value_or_0(a, v, t, col), value_or_0(a, v, t + 1, col),
					  to);
			to += 256; /* the lower parts */
		}
}

/* Writes the parts of n numbers, and zeros up to a whole step. */
static void split_row(const float *x, size_t n, char *to)
{
	for (size_t i = 0; i < n; i += STEP, to += 128) {
		struct parts parts = parts_of_row(x + i, n - i);

		memcpy(to, &parts.upper, 64);
		memcpy(to + 64, &parts.lower, 64);
	}
}

/* Lists the first keys of the steps that some queries need. Returns their number. */
static size_t list_steps(const struct attention *a, const struct query_block *b,
			 const struct queries *queries)
{
	size_t n = 0;

	for (size_t key = queries->begin / STEP * STEP; key < queries->end; key += STEP)
		if (attention_needs(a, b, queries, key, STEP))
			a->steps[n++] = (uint32_t)key;
	return n;
}

static void score(const struct attention *a, const struct query_block *b)
{
	size_t head_stride = attention_head_stride(a->head_dim);
	size_t stride = attention_score_stride(a->n_keys);
	char *q = (char *)a->queries;

	for (size_t row = 0; row < b->n; row++)
		split_row(b->q.data + row * b->q.stride, a->head_dim, q + row * head_stride * 4);
	tiles_begin();
	for (size_t row = 0; row < b->n; row += STEP) {
		struct queries queries = attention_queries(a, b, row, STEP);
		size_t n_steps = list_steps(a, b, &queries);

		for (size_t i = 0; i < n_steps; i++) {
			const char *keys = (const char *)(a->keys + a->steps[i] * head_stride);
			struct factors f = { q + row * head_stride * 4, head_stride * 4, keys,
					     keys + head_stride * 64 };

			results_begin();
			for (size_t d = 0; d < head_stride; d += STEP) {
				results_add_product(&f);
				f.left += 128;
				f.right += (size_t)2 * TILE_SIZE;
				f.right_2 += (size_t)2 * TILE_SIZE;
			}
			results_write(a->scores + row * stride + a->steps[i], stride, true);
		}
	}
	TILE_RELEASE();
}

/* Replaces the shares of a step by their parts: 0 for keys to which the query does not attend. */
static void split_shares(const struct attention *a, const struct query_block *b,
			 const struct queries *queries, size_t key)
{
	size_t stride = attention_score_stride(a->n_keys);

	for (size_t row = queries->row; row < queries->row + queries->n; row++) {
		size_t begin = attention_first_key(a, b->first + row), end = b->first + row + 1;
		float *shares = a->scores + row * stride + key;

		for (size_t i = 0; i < STEP; i++)
			if (key + i < begin || key + i >= end)
				shares[i] = 0;
		split_row(shares, STEP, (char *)shares);
	}
}

static void mix(const struct attention *a, const struct query_block *b)
{
	size_t stride = attention_score_stride(a->n_keys) * sizeof(float);
	size_t value_stride = attention_value_stride(a->value_dim);

	for (size_t row = 0; row < b->n; row += STEP) {
		struct queries queries = attention_queries(a, b, row, STEP);
		size_t n_steps = list_steps(a, b, &queries);
		const char *shares = (const char *)a->scores + row * stride;

		for (size_t i = 0; i < n_steps; i++)
			split_shares(a, b, &queries, a->steps[i]);
		tiles_begin();
		for (size_t col = 0; col < value_stride; col += 2 * 16) {
			bool both = col + 16 < value_stride;

			results_begin();
			for (size_t i = 0; i < n_steps; i++) {
				const char *values =
					(const char *)(a->values + a->steps[i] * value_stride +
						       col * STEP);

				results_add_product(&(const struct factors){
					shares + a->steps[i] * 4, stride, values,
					both ? values + 2 * TILE_SIZE : values });
			}
			results_write(a->attn_out + row * value_stride + col, value_stride, both);
		}
	}
	TILE_RELEASE();
}

static bool usable;

/* Asks the processor for tiles of bf16, and the system for the permission to use their memory. */
static void find_out(void)
{
#if defined __linux__ && defined SYS_arch_prctl
	enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
	unsigned a, b, c, d, a_1;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
	    __get_cpuid_count(7, 1, &a_1, &b, &c, &d) && (a_1 >> 5 & 1))
		usable = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#endif
}

const struct attention_products *attention_by_tiles(void)
{
	static const struct attention_products products = { pack, score, mix };
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_out);
	return usable ? &products : NULL;
}
