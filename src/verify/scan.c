/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scales and codes of a cut show by themselves.
 */
#include <math.h>
#include <string.h>

#include "verify/scan.h"
#include "verify/steps.h"
#include "num/bits.h"
#include "num/fp8.h"
#include "num/scale_grid.h"

#define LANES 64 /* codes of one comparison */

/* scale_inv is amax / FMAX.  For an amax between 1e-6 and 1e4, FMAX / amax is between these limits,
 * and amax / FMAX is not. */
#define INVERTED_MIN 32.0f
#define INVERTED_MAX 1e9f

void finding_add(struct finding *finding, uint64_t at, float value)
{
	if (!finding->n || at < finding->first) {
		finding->first = at;
		finding->value = value;
	}
	finding->n++;
}

void finding_merge(struct finding *into, const struct finding *from)
{
	if (from->n && (!into->n || from->first < into->first)) {
		into->first = from->first;
		into->value = from->value;
	}
	into->n += from->n;
}

static void scan_scale(struct scan *found, float scale, uint64_t at)
{
	found->n_scales++;
	found->any_scale = scale;
	if (!(scale > 0) || !isfinite(scale)) {
		finding_add(&found->bad, at, scale);
		return;
	}
	found->n_large += scale > INVERTED_MIN && scale < INVERTED_MAX;
	found->largest = scale > found->largest ? scale : found->largest;
	found->smallest = found->smallest == 0 || scale < found->smallest ? scale : found->smallest;
	if (!f32_is_pow2(scale))
		finding_add(&found->not_pow2, at, scale);
}

/* Returns the largest magnitude of codes (n_rows, n_cols), in rows stride apart. */
static uint8_t codes_max(const uint8_t *codes, uint64_t n_rows, uint64_t n_cols, uint64_t stride)
{
	uint8_t largest[LANES] = { 0 };
	uint8_t max = 0;

	for (uint64_t row = 0; row < n_rows; row++) {
		const uint8_t *at = codes + row * stride, *end = at + n_cols;

		for (; end - at >= LANES; at += LANES) {
			for (int k = 0; k < LANES; k++) {
				uint8_t magnitude = at[k] & 0x7F;

				largest[k] = magnitude > largest[k] ? magnitude : largest[k];
			}
		}
		for (; at < end; at++)
			max = (*at & 0x7F) > max ? *at & 0x7F : max;
	}
	for (int k = 0; k < LANES; k++)
		max = largest[k] > max ? largest[k] : max;
	return max;
}

static bool not_finite(enum fp8_format format, uint8_t code)
{
	return format == FP8_E4M3 ? (code & 0x7F) == 0x7F : (code & 0x7F) >= 0x7C;
}

/* A cut with its place in the grid. */
struct view {
	const struct verify_weight *weight;
	const struct rect *rect;
	enum fp8_format format;
	uint64_t tile_rows, tile_cols; /* of the tile to judge */
	bool judged;	    /* each tile by itself; else the whole tensor is judged later */
	float low, floor;   /* a tile with codes below `low` and a scale above `floor` is low */
	const void *scales; /* from the first row of the rect's grid on, in whole rows */
	uint64_t grid_cols, first_col;
};

static float scale_at(const struct view *view, uint64_t row, uint64_t col)
{
	uint64_t i = row * view->grid_cols + view->first_col + col;

	return scale_grid_at(view->scales, view->weight->unit.source_scale.scale_type, i);
}

static void scan_nan(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows,
		     struct scan *found)
{
	const struct rect *rect = view->rect;

	for (uint64_t r = row; r < row + n_rows; r++)
		for (uint64_t c = 0; c < rect->n_cols; c++)
			if (not_finite(view->format, codes[r * rect->n_cols + c]))
				finding_add(&found->nan,
					    view->weight->unit.slice.first +
						    (rect->row + r) * view->weight->unit.cols +
						    rect->col + c,
					    NAN);
}

/* Scans one row of tiles. */
static void scan_tiles(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows,
		       struct scan *found)
{
	const struct rect *rect = view->rect;
	bool nan = false;

	for (uint64_t col = 0, t = 0; col < rect->n_cols; col += view->tile_cols, t++) {
		uint64_t n =
			rect->n_cols - col < view->tile_cols ? rect->n_cols - col : view->tile_cols;
		uint8_t max = codes_max(codes + row * rect->n_cols + col, n_rows, n, rect->n_cols);
		float value;

		if (not_finite(view->format, max)) {
			nan = true;
			continue;
		}
		value = fp8_to_f32(view->format, max);
		found->max = value > found->max ? value : found->max;
		if (view->judged && max && value < view->low &&
		    scale_at(view, row / view->tile_rows, t) > view->floor)
			finding_add(&found->low,
				    view->weight->unit.slice.first +
					    (rect->row + row) * view->weight->unit.cols +
					    rect->col + col,
				    value);
	}
	if (nan)
		scan_nan(view, codes, row, n_rows, found);
}

static void scan_scales(const struct view *view, struct scan *found)
{
	struct tile tile = view->weight->unit.source_scale.tile;
	uint64_t n_rows = tile_count(view->rect->n_rows, tile.rows);
	uint64_t n_cols = tile_count(view->rect->n_cols, tile.cols);
	uint64_t first = tile.rows == WHOLE ? 0 : view->rect->row / tile.rows;

	if (tile.rows == WHOLE && view->rect->row) /* counted with the first cut */
		return;
	for (uint64_t row = 0; row < n_rows; row++)
		for (uint64_t col = 0; col < n_cols; col++)
			scan_scale(found, scale_at(view, row, col),
				   view->weight->first_scale + (first + row) * view->grid_cols +
					   view->first_col + col);
}

void scan_cut(const struct verify *verify, const struct cut *cut, const uint8_t *codes,
	      const void *scales, struct scan *found)
{
	const struct verify_weight *weight = &verify->weights.list[cut->weight];
	const struct rect *rect = &cut->rect;
	struct tile tile = weight->unit.source_scale.tile;
	struct view view = { .weight = weight, .rect = rect, .scales = scales };

	view.format = verify_weight_format(weight);
	/* MX blocks may have the scale of a 128 x 128 block that contained them. */
	view.judged = tile.rows != WHOLE && weight->unit.source_scale.scale_type != SCALE_E8M0;
	view.tile_rows = view.judged ? tile.rows : rect->n_rows;
	view.tile_cols = view.judged && tile.cols != WHOLE ? tile.cols : rect->n_cols;
	view.low = diagnose_low_code(verify, view.format);
	view.floor = diagnose_floor_scale(verify);
	view.grid_cols = tile_count(weight->unit.cols, tile.cols);
	view.first_col = tile.cols == WHOLE ? 0 : rect->col / tile.cols;
	scan_scales(&view, found);
	for (uint64_t row = 0; row < rect->n_rows; row += view.tile_rows) {
		uint64_t left = rect->n_rows - row;

		scan_tiles(&view, codes, row, left < view.tile_rows ? left : view.tile_rows, found);
	}
}

void scan_merge(struct scan *into, const struct scan *from)
{
	finding_merge(&into->bad, &from->bad);
	finding_merge(&into->not_pow2, &from->not_pow2);
	finding_merge(&into->nan, &from->nan);
	finding_merge(&into->low, &from->low);
	finding_merge(&into->codes_off, &from->codes_off);
	finding_merge(&into->scales_off, &from->scales_off);
	finding_merge(&into->moved, &from->moved);
	into->n_scales += from->n_scales;
	into->n_large += from->n_large;
	into->largest = from->largest > into->largest ? from->largest : into->largest;
	if (into->smallest == 0 || (from->smallest > 0 && from->smallest < into->smallest))
		into->smallest = from->smallest;
	into->max = from->max > into->max ? from->max : into->max;
	if (from->n_scales)
		into->any_scale = from->any_scale;
	into->error.signal += from->error.signal;
	into->error.noise += from->error.noise;
	into->own_noise += from->own_noise;
	into->n_changed += from->n_changed;
}
