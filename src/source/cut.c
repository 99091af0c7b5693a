/* SPDX-License-Identifier: Apache-2.0 */
#include "source/cut.h"

#include "base/mem.h"

static uint64_t row_step(const struct unit *unit)
{
	size_t rows = unit->source_scale.tile.rows;

	return rows == WHOLE ? 1 : rows;
}

/* All columns where it can be, else whole tiles. */
static uint64_t piece_cols(const struct unit *unit, uint64_t codes)
{
	size_t tile = unit->source_scale.tile.cols;
	uint64_t most = codes / row_step(unit);

	if (unit->cols <= most || tile == WHOLE)
		return unit->cols;
	return most < tile ? tile : most / tile * tile;
}

static uint64_t piece_rows(const struct unit *unit, uint64_t codes)
{
	uint64_t step = row_step(unit);
	uint64_t n = codes / (piece_cols(unit, codes) * step);

	return (n ? n : 1) * step;
}

uint64_t piece_most(const struct unit *unit, uint64_t codes)
{
	return piece_rows(unit, codes) * piece_cols(unit, codes);
}

void pieces_add(struct pieces *pieces, const struct unit *unit, size_t weight, uint64_t codes)
{
	uint64_t n_rows, n_cols;
	struct region region;

	if (!unit->rows || !unit->cols)
		return;
	n_rows = piece_rows(unit, codes);
	n_cols = piece_cols(unit, codes);
	for (region.row = 0; region.row < unit->rows; region.row += region.n_rows) {
		uint64_t left = unit->stack ? unit->stack - region.row % unit->stack
					    : unit->rows - region.row;

		region.n_rows = left < n_rows ? left : n_rows;
		for (region.col = 0; region.col < unit->cols; region.col += n_cols) {
			region.n_cols =
				unit->cols - region.col < n_cols ? unit->cols - region.col : n_cols;
			ARRAY_GROW(pieces->list, pieces->n);
			pieces->list[pieces->n++] = (struct piece){ weight, region };
		}
	}
}
