/* SPDX-License-Identifier: Apache-2.0 */
#include "source/cut.h"

#include "base/mem.h"

static uint64_t row_step(const struct unit *unit)
{
	size_t rows = unit->source_scale.tile.rows;

	return rows == WHOLE ? 1 : rows;
}

uint64_t cut_row_codes(const struct unit *unit)
{
	return row_step(unit) * unit->cols;
}

/* Returns the columns of a cut: all if they fit, else whole tiles. */
static uint64_t cut_cols(const struct unit *unit, uint64_t codes)
{
	size_t tile = unit->source_scale.tile.cols;
	uint64_t max = codes / row_step(unit);

	if (unit->cols <= max || tile == WHOLE)
		return unit->cols;
	return max < tile ? tile : max / tile * tile;
}

static uint64_t cut_rows(const struct unit *unit, uint64_t codes)
{
	uint64_t step = row_step(unit);
	uint64_t n = codes / (cut_cols(unit, codes) * step);

	return (n ? n : 1) * step;
}

uint64_t cut_max_codes(const struct unit *unit, uint64_t codes)
{
	return cut_rows(unit, codes) * cut_cols(unit, codes);
}

bool rect_next(const struct unit *unit, uint64_t n_rows, uint64_t n_cols, struct rect *rect)
{
	uint64_t left;

	rect->col += rect->n_cols;
	if (rect->col >= unit->cols) {
		rect->col = 0;
		rect->row += rect->n_rows;
	}
	if (!unit->cols || rect->row >= unit->rows)
		return false;
	left = unit->stack ? unit->stack - rect->row % unit->stack : unit->rows - rect->row;
	rect->n_rows = left < n_rows ? left : n_rows;
	left = unit->cols - rect->col;
	rect->n_cols = left < n_cols ? left : n_cols;
	return true;
}

void cut_unit(struct cuts *cuts, const struct unit *unit, size_t weight, uint64_t codes)
{
	uint64_t n_rows, n_cols;
	struct rect rect = { 0 };

	if (!unit->rows || !unit->cols)
		return;
	n_rows = cut_rows(unit, codes);
	n_cols = cut_cols(unit, codes);
	while (rect_next(unit, n_rows, n_cols, &rect)) {
		ARRAY_GROW(cuts->list, cuts->n);
		cuts->list[cuts->n++] = (struct cut){ weight, rect };
	}
}
