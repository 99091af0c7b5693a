/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/zeros.h"

#include <string.h>

#define WORD  8	 /* codes that are looked at together */
#define PROBE 64 /* codes of one look for a run */
#define SIDE  16 /* codes of a row that no values round to by chance */

static void add(struct zero_scales *known, enum scale_type type, float scale)
{
	if (known->n == ZERO_SCALES)
		return;
	known->list[known->n].type = type;
	known->list[known->n++].scale = scale;
}

void zero_scales_list(struct zero_scales *known, const struct arithmetic *recorded)
{
	*known = (struct zero_scales){ 0 };
	add(known, SCALE_E8M0, 1);
	for (const struct arithmetic *row = arithmetics; row->name; row++)
		add(known, row->scale_type, arithmetic_zero_scale(row));
	if (recorded->name)
		add(known, recorded->scale_type, arithmetic_zero_scale(recorded));
}

/* compressed-tensors 0.20, calculate_qparams(): torch.finfo(dtype).eps takes the place of 0. */
static float dtype_epsilon(enum dtype dtype)
{
	return dtype == DT_BF16 ? 0x1p-7f : dtype == DT_F16 ? 0x1p-10f : 0x1p-23f;
}

bool zero_scale_is_known(const struct zero_scales *known, enum scale_type type, enum dtype dtype,
			 float scale)
{
	for (size_t i = 0; i < known->n; i++)
		if (known->list[i].type == type && known->list[i].scale == scale)
			return true;
	return type == SCALE_F32 && scale == dtype_epsilon(dtype);
}

static bool is_zero(uint8_t code)
{
	return !(code & 0x7F);
}

static bool all_zero(const uint8_t *codes, uint64_t n)
{
	uint64_t word, any = 0;

	for (; n >= WORD; n -= WORD, codes += WORD) {
		memcpy(&word, codes, WORD);
		any |= word;
	}
	for (; n; n--)
		any |= *codes++;
	return !(any & 0x7F7F7F7F7F7F7F7F);
}

bool zero_run_next(const uint8_t *codes, uint64_t n, uint64_t least, struct zero_run *run)
{
	uint64_t probe = least < 2 * (uint64_t)PROBE ? 1 : PROBE,
		 step = least < 2 * (uint64_t)PROBE ? 1 : least / 2;

	for (uint64_t at = run->end; at + probe <= n; at += step) {
		uint64_t begin = at, end = at + probe;

		if (!all_zero(codes + at, probe))
			continue;
		while (begin > run->end && is_zero(codes[begin - 1]))
			begin--;
		while (end < n && all_zero(codes + end, end + WORD <= n ? WORD : 1))
			end += end + WORD <= n ? WORD : 1;
		while (end < n && is_zero(codes[end]))
			end++;
		*run = (struct zero_run){ begin, end };
		if (end - begin >= least)
			return true;
		at = end;
	}
	return false;
}

/* Has a row that is not in the run values in columns [first, last)?  False where there is none. */
static bool has_values(const uint8_t *codes, uint64_t n, uint64_t cols, uint64_t row,
		       uint64_t first, uint64_t last)
{
	return row < n / cols && !all_zero(codes + row * cols + first, last - first);
}

bool zero_run_is_cut(const uint8_t *codes, uint64_t n, uint64_t cols, struct zero_run run)
{
	uint64_t from = run.begin % cols, to = run.end % cols;
	uint64_t first = run.begin / cols, last = run.end / cols;
	uint64_t end = first == last ? to : cols, begin = first == last ? from : 0;

	/* The row above has values where the run begins, or the row below where it ends. */
	if (from && first && end - from >= SIDE && has_values(codes, n, cols, first - 1, from, end))
		return true;
	return to >= begin + SIDE && has_values(codes, n, cols, last + 1, begin, to);
}
