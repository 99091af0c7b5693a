/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scales and codes of a cut show by themselves.
 */
#include "verify/values/scan.h"

#include <math.h>
#include <string.h>

#include "num/bits.h"
#include "num/fp8.h"
#include "num/scale.h"
#include "num/scale_grid.h"
#include "verify/values/diagnose.h"
#include "verify/values/zeros.h"

#define LANES  64 /* codes of one comparison */
#define SAMPLE 64 /* codes of a cut in which zeros are counted */

/* n places with one value, of which `at` is the first. */
static void finding_add_all(struct finding *finding, uint64_t at, float value, uint64_t n)
{
	if (!finding->n || at < finding->first) {
		finding->first = at;
		finding->value = value;
	}
	finding->n += n;
}

void finding_add(struct finding *finding, uint64_t at, float value)
{
	finding_add_all(finding, at, value, 1);
}

void finding_merge(struct finding *into, const struct finding *from)
{
	if (from->n && (!into->n || from->first < into->first)) {
		into->first = from->first;
		into->value = from->value;
	}
	into->n += from->n;
}

/* Likewise. */
static void range_add_all(struct range *range, float value, uint64_t at, uint64_t n)
{
	if (!range->n || value < range->min)
		range->min = value;
	if (value > range->max || (value == range->max && at < range->max_at)) {
		range->max = value;
		range->max_at = at;
	}
	range->n += n;
	range->bits += n * f32_bits(value);
}

void range_add(struct range *range, float value, uint64_t at)
{
	range_add_all(range, value, at, 1);
}

void range_merge(struct range *into, const struct range *from)
{
	if (!from->n)
		return;
	if (!into->n || from->min < into->min)
		into->min = from->min;
	if (from->max > into->max || (from->max == into->max && from->max_at < into->max_at)) {
		into->max = from->max;
		into->max_at = from->max_at;
	}
	into->n += from->n;
	into->bits += from->bits;
}

float range_others(const struct range *range)
{
	return f32_from_bits((uint32_t)((range->bits - f32_bits(range->max)) / (range->n - 1)));
}

/* Returns the largest of the lanes, which it overwrites. */
static uint8_t lanes_max(uint8_t lanes[LANES])
{
	uint8_t max = 0;

	for (int k = 0; k < 32; k++)
		lanes[k] = lanes[k] > lanes[k + 32] ? lanes[k] : lanes[k + 32];
	for (int k = 0; k < 16; k++)
		lanes[k] = lanes[k] > lanes[k + 16] ? lanes[k] : lanes[k + 16];
	for (int k = 0; k < 16; k++)
		max = lanes[k] > max ? lanes[k] : max;
	return max;
}

/* Returns the largest magnitude of codes (n_rows, n_cols), in rows stride apart. */
static uint8_t codes_max(const uint8_t *codes, uint64_t n_rows, uint64_t n_cols, uint64_t stride)
{
	uint8_t largest[LANES] = { 0 };
	uint8_t max = 0;

	if (n_cols == stride) {
		n_cols *= n_rows;
		n_rows = 1;
	}
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
	if (n_cols >= LANES) {
		uint8_t most = lanes_max(largest);

		max = most > max ? most : max;
	}
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
	bool judged;	  /* each tile by itself; else the whole tensor is judged later */
	float low, floor; /* a tile with codes below `low` and a scale above `floor` is low */
	const struct zero_scales *zero_scales;
	const void *scales; /* from the first row of the rect's grid on, in whole rows */
	uint64_t grid_cols, first_col;
};

static float scale_at(const struct view *view, uint64_t row, uint64_t col)
{
	uint64_t i = row * view->grid_cols + view->first_col + col;

	return scale_grid_at(view->scales, view->weight->unit.source_scale.scale_type, i);
}

/* Returns the place in the weight's tensor of an element of the cut. */
static uint64_t place(const struct view *view, uint64_t row, uint64_t col)
{
	return view->weight->unit.slice.first + (view->rect->row + row) * view->weight->unit.cols +
	       view->rect->col + col;
}

/* Returns the place of the scale of tile (row, col) of the cut in the tensor of scales. */
static uint64_t scale_number(const struct view *view, uint64_t row, uint64_t col)
{
	struct tile tile = view->weight->unit.source_scale.tile;
	uint64_t first = tile.rows == WHOLE ? 0 : view->rect->row / tile.rows;

	return view->weight->first_scale + (first + row) * view->grid_cols + view->first_col + col;
}

static void scan_nan(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows,
		     struct scan *found)
{
	const struct rect *rect = view->rect;

	for (uint64_t r = row; r < row + n_rows; r++)
		for (uint64_t c = 0; c < rect->n_cols; c++)
			if (not_finite(view->format, codes[r * rect->n_cols + c]))
				finding_add(&found->nan, place(view, r, c), 0);
}

/* A tile of zeros, or of a block of MX. */
static void scan_empty(const struct view *view, float scale, uint64_t at, struct scan *found)
{
	const struct weight_scale *of = &view->weight->unit.source_scale;

	if (!(scale > 0) || !isfinite(scale) ||
	    zero_scale_is_known(view->zero_scales, of->scale_type, of->scale->tensor->dtype, scale))
		return;
	finding_add(&found->empty, at, scale);
	range_add(&found->empty_scales, scale, at);
}

/* Tile (row, col) of the cut, with its own scale.  value: of its largest code, of which `at` is the
 * first place. */
static void scan_tile(const struct view *view, uint64_t row, uint64_t col, float value, uint64_t at,
		      struct scan *found)
{
	float scale = scale_at(view, row, col);

	if (value == 0) {
		scan_empty(view, scale, at, found);
		return;
	}
	if (scale_fault_of(scale, view->format) == SCALE_SOUND)
		range_add(&found->live_scales, scale, scale_number(view, row, col));
	if (value < view->low && scale > view->floor)
		finding_add(&found->low, at, value);
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
		if (view->judged)
			scan_tile(view, row / view->tile_rows, t, value, place(view, row, col),
				  found);
	}
	if (nan)
		scan_nan(view, codes, row, n_rows, found);
}

/* Returns what is wrong with a scale, which is n times in the cut, first at `at`. */
static enum scale_fault scan_scale(const struct view *view, float scale, uint64_t at, uint64_t n,
				   struct scan *found)
{
	const struct weight_scale *of = &view->weight->unit.source_scale;
	enum scale_fault fault = scale_fault_of(scale, view->format);

	found->n_scales += n;
	found->any_scale = scale;
	if (fault == SCALE_INVALID) {
		finding_add_all(&found->bad, at, scale, n);
		return fault;
	}
	if (fault == SCALE_LARGE)
		finding_add_all(&found->large, at, scale, n);
	if (of->scale_type == SCALE_E8M0 && fault == SCALE_SOUND &&
	    !zero_scale_is_known(view->zero_scales, SCALE_E8M0, of->scale->tensor->dtype, scale))
		range_add_all(&found->live_scales, scale, at, n);
	found->n_large += scale_looks_inverted(scale) ? n : 0;
	found->largest = scale > found->largest ? scale : found->largest;
	found->smallest = found->smallest == 0 || scale < found->smallest ? scale : found->smallest;
	if (!f32_is_pow2(scale))
		finding_add_all(&found->not_pow2, at, scale, n);
	return fault;
}

/* The largest code of tile (row, col) of the cut, of which a tile as long as the weight may be a
 * part. */
static uint8_t tile_max(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t col)
{
	const struct rect *rect = view->rect;
	struct tile tile = view->weight->unit.source_scale.tile;
	uint64_t tile_rows = tile.rows == WHOLE ? rect->n_rows : tile.rows;
	uint64_t tile_cols = tile.cols == WHOLE ? rect->n_cols : tile.cols;
	uint64_t rows = rect->n_rows - row * tile_rows, cols = rect->n_cols - col * tile_cols;

	return codes_max(codes + row * tile_rows * rect->n_cols + col * tile_cols,
			 rows < tile_rows ? rows : tile_rows, cols < tile_cols ? cols : tile_cols,
			 rect->n_cols);
}

/* A scale that is too small is so of a tile that is not all zero. */
static void scan_small(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t col,
		       struct scan *found)
{
	if (tile_max(view, codes, row, col))
		finding_add(&found->small, scale_number(view, row, col), scale_at(view, row, col));
}

/* The scales of n_rows x n_cols tiles, of a type with 256 values: each value is judged once. */
static void scan_e8m0(const struct view *view, uint64_t n_rows, uint64_t n_cols,
		      const uint8_t *codes, struct scan *found)
{
	struct {
		uint64_t n, first;
		bool small;
	} values[256] = { 0 };
	const uint8_t *scales = (const uint8_t *)view->scales + view->first_col;
	bool any_small = false;

	for (uint64_t row = 0; row < n_rows; row++)
		for (uint64_t col = 0; col < n_cols; col++)
			if (!values[scales[row * view->grid_cols + col]].n++)
				values[scales[row * view->grid_cols + col]].first =
					scale_number(view, row, col);
	for (int i = 0; i < 256; i++) {
		if (values[i].n)
			values[i].small = scan_scale(view, e8m0_to_f32((uint8_t)i), values[i].first,
						     values[i].n, found) == SCALE_SMALL;
		any_small |= values[i].small;
	}
	for (uint64_t row = 0; any_small && row < n_rows; row++)
		for (uint64_t col = 0; col < n_cols; col++)
			if (values[scales[row * view->grid_cols + col]].small)
				scan_small(view, codes, row, col, found);
}

static void scan_scales(const struct view *view, const uint8_t *codes, struct scan *found)
{
	const struct weight_scale *of = &view->weight->unit.source_scale;
	uint64_t n_rows = tile_count(view->rect->n_rows, of->tile.rows);
	uint64_t n_cols = tile_count(view->rect->n_cols, of->tile.cols);

	if (of->tile.rows == WHOLE && view->rect->row) /* counted with the first cut */
		return;
	if (of->scale_type == SCALE_E8M0) {
		scan_e8m0(view, n_rows, n_cols, codes, found);
		return;
	}
	for (uint64_t row = 0; row < n_rows; row++)
		for (uint64_t col = 0; col < n_cols; col++)
			if (scan_scale(view, scale_at(view, row, col), scale_number(view, row, col),
				       1, found) == SCALE_SMALL)
				scan_small(view, codes, row, col, found);
}

/* Blocks of MX in a run of zeros, by their scales. */
static void scan_run_blocks(const struct view *view, struct zero_run run, struct scan *found)
{
	uint64_t cols = view->rect->n_cols, step = view->weight->unit.source_scale.tile.cols;

	for (uint64_t at = run.begin; at + step <= run.end;) {
		uint64_t row = at / cols, col = at % cols;

		if (col % step) {
			at += step - col % step;
			continue;
		}
		scan_empty(view, scale_at(view, row, col / step), place(view, row, col), found);
		at += cols - col < step ? cols - col : step;
	}
}

/* Judges a run of zeros.  Where each tile has a scale, tiles of zeros are judged by it.  At the end
 * of a weight the run may be padding. */
static void scan_run(const struct view *view, const uint8_t *codes, struct zero_run run,
		     struct scan *found)
{
	uint64_t cols = view->rect->n_cols, n = view->rect->n_rows * cols;
	uint64_t row = run.begin / cols, col = run.begin % cols;
	struct tile tile = view->weight->unit.source_scale.tile;

	if (zero_run_is_cut(codes, n, cols, run)) {
		finding_add(&found->cut_off, place(view, row, col), 0);
		return;
	}
	if (tile.rows == 1 ||
	    (view->judged && !tile_max(view, codes, row / tile.rows, col / tile.cols)))
		return;
	found->n_zero_rows += run.end - run.begin;
	if (view->rect->row * cols + run.end < view->weight->unit.rows * cols)
		finding_add(&found->zero_rows, place(view, row, col), 0);
}

static void scan_runs(const struct view *view, const uint8_t *codes, struct scan *found)
{
	uint64_t n = view->rect->n_rows * view->rect->n_cols;
	bool mx = view->weight->unit.source_scale.scale_type == SCALE_E8M0;
	struct zero_run run = { 0 };

	if (view->rect->n_cols != view->weight->unit.cols) /* rows that are not whole */
		return;
	while (zero_run_next(codes, n, n < ZERO_RUN ? n : ZERO_RUN, &run)) {
		if (mx)
			scan_run_blocks(view, run, found);
		else
			scan_run(view, codes, run, found);
	}
}

/* Counts zeros in the first codes, and looks for both signs, which most cuts show there. */
static void scan_sample(const uint8_t *codes, uint64_t n, struct scan *found)
{
	for (uint64_t i = 0; i < n && i < SAMPLE; i++) {
		found->n_sampled++;
		found->n_sampled_zero += !(codes[i] & 0x7F);
	}
	for (uint64_t i = 0; i < n && !(found->negative && found->positive); i++) {
		found->negative |= codes[i] > 0x80;
		found->positive |= codes[i] > 0 && codes[i] < 0x80;
	}
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
	view.zero_scales = &verify->run.zero_scales;
	view.grid_cols = tile_count(weight->unit.cols, tile.cols);
	view.first_col = tile.cols == WHOLE ? 0 : rect->col / tile.cols;
	scan_scales(&view, codes, found);
	scan_runs(&view, codes, found);
	scan_sample(codes, rect->n_rows * rect->n_cols, found);
	found->n_codes += rect->n_rows * rect->n_cols;
	for (uint64_t row = 0; row < rect->n_rows; row += view.tile_rows) {
		uint64_t left = rect->n_rows - row;

		scan_tiles(&view, codes, row, left < view.tile_rows ? left : view.tile_rows, found);
	}
}

void scan_merge(struct scan *into, const struct scan *from)
{
	finding_merge(&into->bad, &from->bad);
	finding_merge(&into->large, &from->large);
	finding_merge(&into->small, &from->small);
	finding_merge(&into->not_pow2, &from->not_pow2);
	finding_merge(&into->nan, &from->nan);
	finding_merge(&into->low, &from->low);
	finding_merge(&into->codes_off, &from->codes_off);
	finding_merge(&into->scales_off, &from->scales_off);
	finding_merge(&into->moved, &from->moved);
	finding_merge(&into->empty, &from->empty);
	finding_merge(&into->cut_off, &from->cut_off);
	finding_merge(&into->zero_rows, &from->zero_rows);
	range_merge(&into->empty_scales, &from->empty_scales);
	range_merge(&into->live_scales, &from->live_scales);
	into->n_zero_rows += from->n_zero_rows;
	into->n_codes += from->n_codes;
	into->n_sampled += from->n_sampled;
	into->n_sampled_zero += from->n_sampled_zero;
	into->negative |= from->negative;
	into->positive |= from->positive;
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
