/* SPDX-License-Identifier: Apache-2.0
 *
 * Squares of LINE bytes by LINE bytes, so that every cache line that is read or written is finished
 * while it is in L1.
 */
#include "base/transpose.h"

#include <string.h>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#define LINE 64

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Element by element. */
static void part_slow(const struct transpose *t)
{
	const char *from = t->from;
	char *to = t->to;

	for (size_t row = 0; row < t->rows; row++)
		for (size_t col = 0; col < t->cols; col++)
			memcpy(to + (col * t->to_stride + row) * t->element,
			       from + (row * t->from_stride + col) * t->element, t->element);
}

#ifdef __x86_64__

/* NOLINTBEGIN(bugprone-macro-parentheses): numbers, and names of loop variables */

/* Defines block_BITS(): a block of N by N elements, N to a vector.  Each round interleaves vector i
 * with vector i + N / 2, which rotates the bits of an element's position by one: after log2(N)
 * rounds its row and column have changed places. */
#define BLOCK(BITS, N)                                                                            \
	static inline void block_##BITS(const char *from, size_t from_stride, char *to,           \
					size_t to_stride)                                         \
	{                                                                                         \
		__m128i v[2][N];                                                                  \
		int now = 0;                                                                      \
                                                                                                  \
		_Pragma("GCC unroll 16") for (size_t i = 0; i < N; i++) v[0][i] =                 \
			_mm_loadu_si128((const void *)(from + i * from_stride));                  \
		_Pragma("GCC unroll 4") for (size_t n = 1; n < N; n *= 2, now ^= 1)               \
			_Pragma("GCC unroll 8") for (size_t i = 0; i < N / 2; i++)                \
		{                                                                                 \
			v[now ^ 1][2 * i] = _mm_unpacklo_epi##BITS(v[now][i], v[now][i + N / 2]); \
			v[now ^ 1][2 * i + 1] =                                                   \
				_mm_unpackhi_epi##BITS(v[now][i], v[now][i + N / 2]);             \
		}                                                                                 \
		_Pragma("GCC unroll 16") for (size_t i = 0; i < N; i++)                           \
			_mm_storeu_si128((void *)(to + i * to_stride), v[now][i]);                \
	}

BLOCK(8, 16)
BLOCK(16, 8)
BLOCK(32, 4)

/* A square whose sides are whole vectors. */
#define SQUARE(BITS, OUTER, N_OUTER, INNER, N_INNER)                           \
	for (size_t OUTER = 0; OUTER < (N_OUTER); OUTER += n)                  \
		for (size_t INNER = 0; INNER < (N_INNER); INNER += n)          \
	block_##BITS(from + row * from_stride + col * t->element, from_stride, \
		     to + col * to_stride + row * t->element, to_stride)

/* NOLINTEND(bugprone-macro-parentheses) */

static void part(const struct transpose *t)
{
	size_t n = 16 / t->element, from_stride = t->from_stride * t->element,
	       to_stride = t->to_stride * t->element;
	const char *from = t->from;
	char *to = t->to;

	if (t->rows % n || t->cols % n)
		part_slow(t);
	else if (t->element == 4)
		SQUARE(32, row, t->rows, col, t->cols);
	else if (t->element == 2)
		SQUARE(16, row, t->rows, col, t->cols);
	else
		SQUARE(8, col, t->cols, row, t->rows);
}

#else
#define part part_slow
#endif

/* Fetches the lines of the square below.  Inlined: gcc drops calls whose one effect is to fetch. */
static inline __attribute__((always_inline)) void fetch(const struct transpose *t, size_t row,
							size_t col, size_t side)
{
	size_t end = min_size(row + 2 * side, t->rows + t->ahead);
	const char *from = t->from;

	for (row += side; row < end; row++)
		__builtin_prefetch(from + (row * t->from_stride + col) * t->element, 0, 2);
}

void transpose(const struct transpose *t)
{
	size_t side = LINE / t->element;

	for (size_t row = 0; row < t->rows; row += side)
		for (size_t col = 0; col < t->cols; col += side) {
			struct transpose square = *t;

			fetch(t, row, col, side);
			square.from =
				(const char *)t->from + (row * t->from_stride + col) * t->element;
			square.to = (char *)t->to + (col * t->to_stride + row) * t->element;
			square.rows = min_size(side, t->rows - row);
			square.cols = min_size(side, t->cols - col);
			part(&square);
		}
}
