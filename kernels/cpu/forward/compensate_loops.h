/* SPDX-License-Identifier: Apache-2.0
 *
 * The factor of a Hessian and the rounding by it (backend/host_ops.h), compiled once for each
 * instruction set, as ops_loops.h is.
 *
 * Both are left-looking: a group of columns first takes all terms of the columns before it, in
 * chunks that stay in L1, and ends with its own recurrence.  A sum is one chain of fused
 * multiply-adds in the order of columns, which chunks only interrupt.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_COMPENSATE_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_COMPENSATE_LOOPS_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/lanes.h"
#include "num/fp8.h"

/* The sums that registers hold: GROUP columns of SUM_VECTORS vectors of rows. */
#define SUM_VECTORS 2
#if LANES == 16
#define GROUP 8
#else
#define GROUP 4
#endif
#define CHUNK 128 /* columns of a chunk: 16 KiB of errors */

/* Sums of rows in lanes, and where their terms are: left x right, n times. */
struct chain {
	const float *left[SUM_VECTORS];
	ptrdiff_t left_step;
	const float *right;
	ptrdiff_t right_step;
	ptrdiff_t right_column; /* from the factor of a column to that of the next */
};

/* Adds the terms, or subtracts them. */
LANE_FN void chain_run(const struct chain *chain, size_t n, size_t vectors, bool subtract,
		       lanes sum[GROUP][SUM_VECTORS])
{
	const float *right = chain->right, *left[SUM_VECTORS];

	UNROLL for (size_t v = 0; v < vectors; v++) left[v] = chain->left[v];
	for (size_t i = 0; i < n; i++, right += chain->right_step) {
		lanes of_rows[SUM_VECTORS];

		UNROLL for (size_t v = 0; v < vectors; v++)
		{
			of_rows[v] = subtract ? -lanes_load(left[v]) : lanes_load(left[v]);
			left[v] += chain->left_step;
		}
		UNROLL for (size_t c = 0; c < GROUP; c++)
		{
			lanes of_column = lanes_all(right[(ptrdiff_t)c * chain->right_column]);

			UNROLL for (size_t v = 0; v < vectors; v++) sum[c][v] =
				lanes_multiply_add(of_rows[v], of_column, sum[c][v]);
		}
	}
}

LANE_FN float *factor_at(const struct triangle *t, size_t row, size_t col)
{
	return triangle_at(t, row - row % TRIANGLE_PANEL, col) + row % TRIANGLE_PANEL;
}

/* Rows in `vectors` vectors, from `row` on, and a group of columns from col on. */
struct factor_tile {
	const struct triangle *t;
	size_t row, col;
};

LANE_FN void factor_load(const struct factor_tile *at, size_t vectors,
			 lanes sum[GROUP][SUM_VECTORS])
{
	UNROLL for (size_t c = 0; c < GROUP; c++) UNROLL for (size_t v = 0; v < vectors; v++)
		sum[c][v] = lanes_load(factor_at(at->t, at->row + v * LANES, at->col + c));
}

LANE_FN void factor_store(const struct factor_tile *at, size_t vectors,
			  lanes sum[GROUP][SUM_VECTORS])
{
	UNROLL for (size_t c = 0; c < GROUP; c++) UNROLL for (size_t v = 0; v < vectors; v++)
		lanes_store(factor_at(at->t, at->row + v * LANES, at->col + c), sum[c][v]);
}

/* Subtracts the terms of columns end - 1 down to begin. */
LANE_FN void factor_terms(const struct factor_tile *at, size_t begin, size_t end, size_t vectors,
			  lanes sum[GROUP][SUM_VECTORS])
{
	struct chain chain = { .left_step = -TRIANGLE_PANEL,
			       .right_step = -TRIANGLE_PANEL,
			       .right_column = 1 };

	if (begin == end)
		return;
	UNROLL for (size_t v = 0; v < vectors; v++) chain.left[v] =
		factor_at(at->t, at->row + v * LANES, end - 1);
	chain.right = factor_at(at->t, at->col, end - 1);
	chain_run(&chain, end - begin, vectors, true, sum);
}

LANE_FN void factor_take(const struct factor_tile *at, size_t begin, size_t end, size_t vectors)
{
	lanes sum[GROUP][SUM_VECTORS];

	factor_load(at, vectors, sum);
	factor_terms(at, begin, end, vectors, sum);
	factor_store(at, vectors, sum);
}

LANE_FN size_t block_end(size_t n, size_t first)
{
	return n - first < TRIANGLE_BLOCK ? n : first + TRIANGLE_BLOCK;
}

/* Subtracts the terms of all columns after the block from its columns, at rows in `vectors`
 * vectors. */
LANE_FN void factor_after(const struct triangle *t, size_t first, size_t row, size_t vectors)
{
	size_t last = block_end(t->n, first), panel = row - row % TRIANGLE_PANEL;

	for (size_t begin, end = t->n; end > last; end = begin) {
		begin = end - last > CHUNK ? end - CHUNK : last;
		for (size_t col = panel > first ? panel : first; col < last; col += GROUP)
			factor_take(&(struct factor_tile){ t, row, col }, begin, end, vectors);
	}
}

/* Computes a group of columns from the sums that lack only the block's own terms, at rows above
 * them. */
LANE_FN void factor_group(const struct factor_tile *at, size_t last, size_t vectors)
{
	lanes sum[GROUP][SUM_VECTORS];

	factor_load(at, vectors, sum);
	factor_terms(at, at->col + GROUP, last, vectors, sum);
	UNROLL for (size_t left = GROUP; left > 0; left--)
	{
		const size_t c = left - 1;
		const float *right = factor_at(at->t, at->col, at->col + c);
		lanes pivot = lanes_all(right[c]);

		UNROLL for (size_t v = 0; v < vectors; v++) sum[c][v] /= pivot;
		UNROLL for (size_t i = 0; i < GROUP; i++)
		{
			lanes of_column = lanes_all(right[i]);

			if (i >= c)
				continue;
			UNROLL for (size_t v = 0; v < vectors; v++) sum[i][v] =
				lanes_multiply_add(-sum[c][v], of_column, sum[i][v]);
		}
	}
	factor_store(at, vectors, sum);
}

/* The same at the 16 rows of the group's own panel.  Returns false if a pivot is not positive and
 * finite. */
static bool factor_corner(const struct triangle *t, size_t col)
{
	size_t panel = col - col % TRIANGLE_PANEL, begin = col - panel;

	for (size_t c = begin + GROUP; c-- > begin;) {
		float *x = triangle_at(t, panel, panel + c), pivot = x[c];

		if (!(pivot > 0) || f32_is_inf(pivot))
			return false;
		x[c] = sqrtf(pivot);
		for (size_t row = 0; row < c; row++)
			x[row] /= x[c];
		for (size_t i = begin; i < c; i++) {
			float *y = triangle_at(t, panel, panel + i);

			for (size_t row = 0; row <= i; row++)
				y[row] = fmaf(-x[row], x[i], y[row]);
		}
	}
	return true;
}

/* The vectors whose rows are of one panel. */
#define PANEL_VECTORS (LANES == TRIANGLE_PANEL ? 1 : SUM_VECTORS)
#define PANEL_STEP    (PANEL_VECTORS * LANES)

static bool CPU_OP(factor_diagonal)(const struct triangle *t, size_t first)
{
	size_t last = block_end(t->n, first);

	for (size_t row = first; row < last; row += PANEL_STEP)
		factor_after(t, first, row, PANEL_VECTORS);
	for (size_t end = last; end > first; end -= GROUP) {
		size_t col = end - GROUP, panel = col - col % TRIANGLE_PANEL;

		for (size_t row = panel; row < panel + TRIANGLE_PANEL; row += PANEL_STEP)
			factor_take(&(struct factor_tile){ t, row, col }, end, last, PANEL_VECTORS);
		if (!factor_corner(t, col))
			return false;
		for (size_t row = first; row < panel; row += PANEL_STEP)
			factor_group(&(struct factor_tile){ t, row, col }, last, PANEL_VECTORS);
	}
	return true;
}

static void CPU_OP(factor_rows)(const struct triangle *t, size_t first, size_t row)
{
	size_t row_end = row + ROUND_ROWS, last = block_end(t->n, first);

	for (; row < row_end; row += SUM_VECTORS * LANES) {
		factor_after(t, first, row, SUM_VECTORS);
		for (size_t end = last; end > first; end -= GROUP)
			factor_group(&(struct factor_tile){ t, row, end - GROUP }, last,
				     SUM_VECTORS);
	}
}

static void CPU_OP(factor_unit)(const struct triangle *t, size_t row, const float *pivots)
{
	for (size_t col = row; col < t->n; col++) {
		float *x = triangle_at(t, row, col);

		for (size_t i = 0; i < TRIANGLE_PANEL; i += LANES)
			lanes_store(x + i, lanes_load(x + i) / pivots[col]);
	}
}

/* Where rows [row, row + 2 vectors) and a group of columns are rounded. */
struct round_tile {
	const struct round_rows_args *args;
	size_t row, col;
};

/* Adds the terms of columns [begin, end); begin is a multiple of 16.  Fetches the factor of the
 * next chunk, which comes from memory if there are many columns. */
LANE_FN void round_terms(const struct round_tile *at, size_t begin, size_t end,
			 lanes sum[GROUP][SUM_VECTORS])
{
	struct chain chain = { .left_step = ROUND_ROWS,
			       .right_step = 1,
			       .right_column = TRIANGLE_PANEL };

	for (size_t i = begin; i < end; i += TRIANGLE_PANEL) {
		size_t n = end - i < TRIANGLE_PANEL ? end - i : TRIANGLE_PANEL;

		UNROLL for (size_t v = 0; v < SUM_VECTORS; v++) chain.left[v] =
			at->args->e + i * ROUND_ROWS + at->row + v * LANES;
		chain.right = triangle_at(&at->args->u, i, at->col);
		if (i + CHUNK + TRIANGLE_PANEL <= at->col)
			UNROLL for (size_t c = 0; c < GROUP; c++) __builtin_prefetch(
				triangle_at(&at->args->u, i + CHUNK, at->col + c), 0, 2);
		chain_run(&chain, n, SUM_VECTORS, false, sum);
	}
}

LANE_FN lanes_bits bits_choose(lanes_int mask, lanes_bits yes, lanes_bits no)
{
	return ((lanes_bits)mask & yes) | (~(lanes_bits)mask & no);
}

/* Returns fp8_from_f32() of each value, and its fp8_to_f32(), to the bit. */
LANE_FN lanes_bits tile_fp8(lanes x, enum fp8_format format, lanes *value)
{
	const uint32_t m_bits = format == FP8_E4M3 ? FP8_E4M3_M_BITS : FP8_E5M2_M_BITS;
	const int e_min = format == FP8_E4M3 ? FP8_E4M3_E_MIN : FP8_E5M2_E_MIN;
	const uint32_t drop = 23 - m_bits, max = fp8_max_code(format);
	const uint32_t base = (uint32_t)(e_min + 126) << m_bits;
	/* Below 2^e_min: the bits of x + magic are its code + the bits of magic */
	const lanes magic = lanes_all(f32_pow2(e_min + (int)drop));
	lanes_bits bits = (lanes_bits)x, magnitude = bits & 0x7FFFFFFF, sign = bits & 0x80000000;
	lanes shifted = (lanes)magnitude + magic;
	lanes_int is_subnormal = (lanes_int)magnitude < (e_min + 127) << 23;
	lanes_int is_nan = (lanes_int)magnitude > (int)F32_INF;
	lanes_bits code = magnitude + ((1u << (drop - 1)) - 1) + (magnitude >> drop & 1);

	code = (code >> drop) - base;
	code = bits_choose((lanes_int)code > (int)max, max - (lanes_bits){ 0 }, code);
	*value = (lanes)(sign | bits_choose(is_subnormal, (lanes_bits)(shifted - magic),
					    (code + base) << drop));
	*value = (lanes)bits_choose(is_nan, bits, (lanes_bits)*value);
	code = sign >> 24 |
	       bits_choose(is_subnormal, (lanes_bits)shifted - (lanes_bits)magic, code);
	return bits_choose(is_nan, FP8_NAN - (lanes_bits){ 0 }, code);
}

/* Rounds column col at rows from row on, which have this sum.  Returns the errors. */
LANE_FN lanes round_column(const struct round_rows_args *a, size_t row, size_t col, lanes sum)
{
	size_t scale = (size_t)a->tile_col[col] * ROUND_ROWS + row;
	lanes factor = lanes_load(a->factor + scale), value, error;
	float *e = a->e + col * ROUND_ROWS + row;
	lanes_bits codes = tile_fp8(a->divide ? sum / factor : sum * factor, a->format, &value);
	lanes_bytes bytes = __builtin_convertvector(codes, lanes_bytes);
	lanes_int is_finite;

	memcpy(a->codes + col * ROUND_ROWS + row, &bytes, sizeof bytes);
	error = lanes_load(e) - value * lanes_load(a->scale_inv + scale);
	is_finite = ((lanes_int)error & 0x7FFFFFFF) < (int)F32_INF;
	error = (lanes)((lanes_int)error & is_finite);
	lanes_store(e, error);
	return error;
}

/* Rounds a group of columns, whose sums lack only the terms of its own columns. */
LANE_FN void round_group(const struct round_tile *at, lanes sum[GROUP][SUM_VECTORS])
{
	const struct round_rows_args *a = at->args;
	size_t panel = at->col - at->col % TRIANGLE_PANEL;

	UNROLL for (size_t c = 0; c < GROUP; c++)
	{
		const float *right = NULL;

		if (a->u.data)
			right = triangle_at(&a->u, panel, at->col) + (at->col - panel) + c;
		UNROLL for (size_t v = 0; v < SUM_VECTORS; v++)
		{
			lanes error = round_column(a, at->row + v * LANES, at->col + c, sum[c][v]);

			if (!right)
				continue;
			UNROLL for (size_t i = 0; i < GROUP; i++)
			{
				if (i > c)
					sum[i][v] = lanes_multiply_add(
						error, lanes_all(right[i * TRIANGLE_PANEL]),
						sum[i][v]);
			}
		}
	}
}

/* The sums of a block: acc[column][row]. */
typedef float round_sums[TRIANGLE_BLOCK][ROUND_ROWS];

LANE_FN void round_load(const struct round_tile *at, size_t first, round_sums sums,
			lanes sum[GROUP][SUM_VECTORS])
{
	UNROLL for (size_t c = 0; c < GROUP; c++) UNROLL for (size_t v = 0; v < SUM_VECTORS; v++)
		sum[c][v] = lanes_load(sums[at->col - first + c] + at->row + v * LANES);
}

/* Adds the terms of columns [begin, end) to the sums of the columns [first, last). */
LANE_FN void round_before(const struct round_rows_args *a, size_t first, size_t last, size_t begin,
			  size_t end, round_sums sums)
{
	lanes sum[GROUP][SUM_VECTORS];

	for (size_t col = first; col < last; col += GROUP)
		for (size_t row = 0; row < ROUND_ROWS; row += SUM_VECTORS * LANES) {
			const struct round_tile at = { a, row, col };

			round_load(&at, first, sums, sum);
			round_terms(&at, begin, end, sum);
			UNROLL for (size_t c = 0; c < GROUP; c++) UNROLL for (size_t v = 0;
									      v < SUM_VECTORS; v++)
				lanes_store(sums[col - first + c] + row + v * LANES, sum[c][v]);
		}
}

static void CPU_OP(round_rows)(const struct round_rows_args *a)
{
	size_t n = a->u.n, last;
	lanes sum[GROUP][SUM_VECTORS];
	round_sums sums;

	for (size_t first = 0; first < n; first = last) {
		last = block_end(n, first);
		memcpy(sums, a->e + first * ROUND_ROWS, (last - first) * sizeof *sums);
		for (size_t begin = 0; a->u.data && begin < first; begin += CHUNK)
			round_before(a, first, last, begin,
				     first - begin < CHUNK ? first : begin + CHUNK, sums);
		for (size_t col = first; col < last; col += GROUP)
			for (size_t row = 0; row < ROUND_ROWS; row += SUM_VECTORS * LANES) {
				const struct round_tile at = { a, row, col };

				round_load(&at, first, sums, sum);
				if (a->u.data)
					round_terms(&at, first, col, sum);
				round_group(&at, sum);
			}
	}
}

#endif
