/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scales and codes of a cut show by themselves.
 */
#include <math.h>
#include <string.h>

#include "verify/steps.h"
#include "num/bits.h"
#include "num/e8m0.h"
#include "num/fp8.h"

#define LANES 64 /* codes that are compared at a time */

/* scale_inv is amax / FMAX; of weights below 1e4, and above 1e-6, FMAX / amax lies between these,
 * and amax / FMAX does not. */
#define INVERTED_LEAST 32.0f
#define INVERTED_MOST  1e9f

static void note_first(uint64_t *n, uint64_t *first, uint64_t at)
{
	if (!*n || at < *first)
		*first = at;
	++*n;
}

static void scan_scale(struct scan *found, float scale, uint64_t at)
{
	found->n_scales++;
	found->any_scale = scale;
	if (!(scale > 0) || !isfinite(scale)) {
		if (!found->n_bad || at < found->first_bad)
			found->bad = scale;
		note_first(&found->n_bad, &found->first_bad, at);
		return;
	}
	found->n_large += scale > INVERTED_LEAST && scale < INVERTED_MOST;
	found->largest = scale > found->largest ? scale : found->largest;
	found->smallest = found->smallest == 0 || scale < found->smallest ? scale : found->smallest;
	if (!f32_is_pow2(scale)) {
		if (!found->n_not_pow2 || at < found->first_not_pow2)
			found->not_pow2 = scale;
		note_first(&found->n_not_pow2, &found->first_not_pow2, at);
	}
}

uint8_t codes_max(const uint8_t *codes, uint64_t n_rows, uint64_t n_cols, uint64_t stride)
{
	uint8_t most[LANES] = { 0 };
	uint8_t max = 0;

	for (uint64_t row = 0; row < n_rows; row++) {
		const uint8_t *at = codes + row * stride, *end = at + n_cols;

		for (; end - at >= LANES; at += LANES) {
			for (int k = 0; k < LANES; k++) {
				uint8_t magnitude = at[k] & 0x7F;

				most[k] = magnitude > most[k] ? magnitude : most[k];
			}
		}
		for (; at < end; at++)
			max = (*at & 0x7F) > max ? *at & 0x7F : max;
	}
	for (int k = 0; k < LANES; k++)
		max = most[k] > max ? most[k] : max;
	return max;
}

static bool not_finite(enum fp8_format format, uint8_t code)
{
	return format == FP8_E4M3 ? (code & 0x7F) == 0x7F : (code & 0x7F) >= 0x7C;
}

/* What the cut's place and grid are. */
struct view {
	const struct checked *weight;
	const struct rect *rect;
	enum fp8_format format;
	uint64_t tile_rows, tile_cols; /* that are judged together */
	bool judged; /* by tile; else what has one scale, or may have another's, is by the tensor */
	float low, floor;   /* codes below `low` are, where the scale is above `floor` */
	const void *scales; /* from the first row of the rect's grid on, in whole rows */
	uint64_t grid_cols, first_col;
};

static float scale_at(const struct view *view, uint64_t row, uint64_t col)
{
	uint64_t i = row * view->grid_cols + view->first_col + col;
	float scale;

	if (view->weight->unit.source_scale.scale_type == SCALE_E8M0)
		return e8m0_to_f32(((const uint8_t *)view->scales)[i]);
	memcpy(&scale, (const char *)view->scales + 4 * i, 4);
	return scale;
}

static void scan_nan(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows,
		     struct scan *found)
{
	const struct rect *rect = view->rect;

	for (uint64_t r = row; r < row + n_rows; r++)
		for (uint64_t c = 0; c < rect->n_cols; c++)
			if (not_finite(view->format, codes[r * rect->n_cols + c]))
				note_first(&found->n_nan, &found->first_nan,
					   (rect->row + r) * view->weight->unit.cols + rect->col +
						   c);
}

/* One row of tiles. */
static void scan_tiles(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows,
		       struct scan *found)
{
	const struct rect *rect = view->rect;
	bool nan = false;

	for (uint64_t col = 0, t = 0; col < rect->n_cols; col += view->tile_cols, t++) {
		uint64_t n =
			rect->n_cols - col < view->tile_cols ? rect->n_cols - col : view->tile_cols;
		uint8_t max = codes_max(codes + row * rect->n_cols + col, n_rows, n, rect->n_cols);
		float most;

		if (not_finite(view->format, max)) {
			nan = true;
			continue;
		}
		most = fp8_to_f32(view->format, max);
		found->most = most > found->most ? most : found->most;
		if (view->judged && max && most < view->low &&
		    scale_at(view, row / view->tile_rows, t) > view->floor) {
			uint64_t at = (rect->row + row) * view->weight->unit.cols + rect->col + col;

			if (!found->n_low || at < found->first_low)
				found->low = most;
			note_first(&found->n_low, &found->first_low, at);
		}
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

	if (tile.rows == WHOLE && view->rect->row) /* seen before */
		return;
	for (uint64_t row = 0; row < n_rows; row++)
		for (uint64_t col = 0; col < n_cols; col++)
			scan_scale(found, scale_at(view, row, col),
				   (first + row) * view->grid_cols + view->first_col + col);
}

void scan_piece(const struct verify *verify, const struct cut *cut, const uint8_t *codes,
		const void *scales, struct scan *found)
{
	const struct checked *weight = &verify->weights[cut->weight];
	const struct rect *rect = &cut->rect;
	struct tile tile = weight->unit.source_scale.tile;
	struct view view = { .weight = weight, .rect = rect, .scales = scales };

	view.format = weight_format(weight);
	/* MX blocks may have the scale of the 128 x 128 block that they were part of. */
	view.judged = tile.rows != WHOLE && weight->unit.source_scale.scale_type != SCALE_E8M0;
	view.tile_rows = view.judged ? tile.rows : rect->n_rows;
	view.tile_cols = view.judged && tile.cols != WHOLE ? tile.cols : rect->n_cols;
	view.low = verify_low_code(verify, view.format);
	view.floor = verify_floor_scale(verify);
	view.grid_cols = tile_count(weight->unit.cols, tile.cols);
	view.first_col = tile.cols == WHOLE ? 0 : rect->col / tile.cols;
	scan_scales(&view, found);
	for (uint64_t row = 0; row < rect->n_rows; row += view.tile_rows) {
		uint64_t left = rect->n_rows - row;

		scan_tiles(&view, codes, row, left < view.tile_rows ? left : view.tile_rows, found);
	}
}

#define MERGE(into, from, count, first, value)                                            \
	do {                                                                              \
		if ((from)->count && (!(into)->count || (from)->first < (into)->first)) { \
			(into)->first = (from)->first;                                    \
			(into)->value = (from)->value;                                    \
		}                                                                         \
		(into)->count += (from)->count;                                           \
	} while (0)

void scan_merge(struct scan *into, const struct scan *from)
{
	MERGE(into, from, n_bad, first_bad, bad);
	MERGE(into, from, n_not_pow2, first_not_pow2, not_pow2);
	MERGE(into, from, n_nan, first_nan, first_nan);
	MERGE(into, from, n_low, first_low, low);
	MERGE(into, from, n_codes_off, first_code_off, first_code_off);
	MERGE(into, from, n_scales_off, first_scale_off, first_scale_off);
	into->n_scales += from->n_scales;
	into->n_large += from->n_large;
	into->largest = from->largest > into->largest ? from->largest : into->largest;
	if (into->smallest == 0 || (from->smallest > 0 && from->smallest < into->smallest))
		into->smallest = from->smallest;
	into->most = from->most > into->most ? from->most : into->most;
	if (from->n_scales)
		into->any_scale = from->any_scale;
	into->signal += from->signal;
	into->noise += from->noise;
	into->own_noise += from->own_noise;
}
