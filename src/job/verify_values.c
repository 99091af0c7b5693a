/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at every scale and code, in pieces of whole tiles over all threads; what is found is added up by weight, so that
 * a tensor with a million bad scales is one problem, the same at any number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "job/verify_internal.h"
#include "num/bits.h"
#include "num/e8m0.h"
#include "num/fp8.h"

#define PIECE_CODES ((uint64_t)512 << 10)

/* scale_inv is amax / FMAX; of weights below 1e4, and above 1e-6, FMAX / amax lies between these, and amax / FMAX does not. */
#define INVERTED_LEAST 32.0f
#define INVERTED_MOST  1e9f

/* --- cutting --- */

static uint64_t row_step(const struct checked *weight)
{
	size_t rows = weight->unit.source_scale.tile.rows;

	return rows == WHOLE ? 1 : rows;
}

/* Columns of a piece: all of them where it can be, else whole tiles. */
static uint64_t piece_cols(const struct checked *weight)
{
	size_t tile = weight->unit.source_scale.tile.cols;
	uint64_t cols = weight->unit.cols;
	uint64_t most = PIECE_CODES / row_step(weight);

	if (cols <= most || tile == WHOLE)
		return cols;
	return most < tile ? tile : most / tile * tile;
}

static uint64_t piece_rows(const struct checked *weight)
{
	uint64_t step = row_step(weight);
	uint64_t n = PIECE_CODES / (piece_cols(weight) * step);

	return (n ? n : 1) * step;
}

static void pieces_cut(const struct verify *verify, struct piece **pieces, size_t *n)
{
	*pieces = NULL;
	*n = 0;
	for (size_t w = 0; w < verify->n_weights; w++) {
		const struct checked *weight = &verify->weights[w];
		uint64_t rows = weight->scanned ? weight->unit.rows : 0;

		for (uint64_t row = 0; row < rows; row += piece_rows(weight)) {
			for (uint64_t col = 0; col < weight->unit.cols; col += piece_cols(weight)) {
				struct region region = { .row = row, .col = col };

				region.n_rows = rows - row < piece_rows(weight) ? rows - row : piece_rows(weight);
				region.n_cols = weight->unit.cols - col < piece_cols(weight) ? weight->unit.cols - col
											     : piece_cols(weight);
				ARRAY_GROW(*pieces, *n);
				(*pieces)[(*n)++] = (struct piece){ w, region };
			}
		}
	}
}

static int desks_new(struct desk **desks, const struct verify *verify, struct err *err)
{
	uint64_t codes = PIECE_CODES;

	for (size_t w = 0; w < verify->n_weights; w++) {
		uint64_t size = piece_rows(&verify->weights[w]) * piece_cols(&verify->weights[w]);

		if (verify->weights[w].scanned && size > codes)
			codes = size;
	}
	codes = (codes + 63) & ~(uint64_t)63;
	*desks = xcalloc((size_t)verify->params->n_threads, sizeof **desks);
	for (int i = 0; i < verify->params->n_threads; i++) {
		struct desk *desk = &(*desks)[i];
		char *at;

		if (buffer_alloc(&desk->memory, 14 * codes, "a worker's buffers", err))
			return -1;
		at = desk->memory;
		desk->codes = (uint8_t *)at;
		desk->expected = (uint8_t *)at + codes;
		desk->source = (struct source_buffers){ at + 2 * codes, at + 6 * codes, 4 * codes };
		desk->expected_scales = at + 10 * codes;
	}
	return 0;
}

static void desks_free(struct desk *desks, int n_workers)
{
	for (int i = 0; desks && i < n_workers; i++)
		free(desks[i].memory);
	free(desks);
}

/* --- looking --- */

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

/* The largest magnitude of n codes. */
static uint8_t codes_max(const uint8_t *codes, size_t n)
{
	typedef uint8_t bytes __attribute__((vector_size(32)));
	bytes most = { 0 }, magnitude, larger;
	uint8_t max = 0;
	size_t i = 0;

	for (; n - i >= sizeof most; i += sizeof most) {
		memcpy(&magnitude, codes + i, sizeof magnitude);
		magnitude &= (bytes){ 0 } + 0x7F;
		larger = (bytes)(magnitude > most);
		most = (magnitude & larger) | (most & ~larger);
	}
	for (size_t k = 0; k < sizeof most; k++)
		max = most[k] > max ? most[k] : max;
	for (; i < n; i++)
		max = (codes[i] & 0x7F) > max ? codes[i] & 0x7F : max;
	return max;
}

static bool not_finite(enum fp8_format format, uint8_t code)
{
	return format == FP8_E4M3 ? (code & 0x7F) == 0x7F : (code & 0x7F) >= 0x7C;
}

/* What the piece's place and grid are. */
struct view {
	const struct checked *weight;
	const struct region *region;
	enum fp8_format format;
	size_t tile_rows, tile_cols; /* no WHOLE in them */
	float low, floor;	     /* codes below `low` are, where the scale is above `floor` */
	const void *scales;	     /* from the first row of the region's grid on, in whole rows */
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

static void scan_nan(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows, struct scan *found)
{
	const struct region *region = view->region;

	for (uint64_t r = row; r < row + n_rows; r++)
		for (uint64_t c = 0; c < region->n_cols; c++)
			if (not_finite(view->format, codes[r * region->n_cols + c]))
				note_first(&found->n_nan, &found->first_nan,
					   (region->row + r) * view->weight->unit.cols + region->col + c);
}

/* Of MX blocks, which may have the scale of the 128 x 128 block that they were part of, the range is judged together. */
static bool is_mx(const struct checked *weight)
{
	return weight->unit.source_scale.scale_type == SCALE_E8M0;
}

/* One row of tiles. */
static void scan_tiles(const struct view *view, const uint8_t *codes, uint64_t row, uint64_t n_rows, struct scan *found)
{
	const struct region *region = view->region;
	struct tile tile = view->weight->unit.source_scale.tile;
	bool nan = false;

	for (uint64_t col = 0, t = 0; col < region->n_cols; col += view->tile_cols, t++) {
		uint64_t n = region->n_cols - col < view->tile_cols ? region->n_cols - col : view->tile_cols;
		uint8_t max = 0;
		float most, scale;

		for (uint64_t r = row; r < row + n_rows; r++) {
			uint8_t of_row = codes_max(codes + r * region->n_cols + col, n);

			max = of_row > max ? of_row : max;
		}
		if (not_finite(view->format, max)) {
			nan = true;
			continue;
		}
		most = fp8_to_f32(view->format, max);
		scale = scale_at(view, tile.rows == WHOLE ? 0 : row / view->tile_rows, t);
		found->most = most > found->most ? most : found->most;
		if (tile.rows != WHOLE && !is_mx(view->weight) && max && most < view->low && scale > view->floor) {
			uint64_t at = (region->row + row) * view->weight->unit.cols + region->col + col;

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
	uint64_t n_rows = tile_count(view->region->n_rows, tile.rows);
	uint64_t n_cols = tile_count(view->region->n_cols, tile.cols);
	uint64_t first = tile.rows == WHOLE ? 0 : view->region->row / tile.rows;

	if (tile.rows == WHOLE && view->region->row) /* seen before */
		return;
	for (uint64_t row = 0; row < n_rows; row++)
		for (uint64_t col = 0; col < n_cols; col++)
			scan_scale(found, scale_at(view, row, col),
				   (first + row) * view->grid_cols + view->first_col + col);
}

int read_codes(struct verify *verify, const struct piece *piece, uint8_t *codes, struct err *err)
{
	const struct unit *unit = &verify->weights[piece->weight].unit;
	const struct region *region = &piece->region;

	if (region->n_cols == unit->cols)
		return source_read_bytes(&verify->files, unit->source, region->row * unit->cols,
					 (size_t)(region->n_rows * region->n_cols), codes, err);
	for (uint64_t r = 0; r < region->n_rows; r++)
		if (source_read_bytes(&verify->files, unit->source, (region->row + r) * unit->cols + region->col,
				      (size_t)region->n_cols, codes + r * region->n_cols, err))
			return -1;
	return 0;
}

#define MERGE(into, from, count, first, value)                                                           \
	do {                                                                                             \
		if ((from)->count && (!(into)->count || (from)->first < (into)->first)) {                \
			(into)->first = (from)->first;                                                   \
			(into)->value = (from)->value;                                                   \
		}                                                                                        \
		(into)->count += (from)->count;                                                          \
	} while (0)

static void scan_merge(struct scan *into, const struct scan *from)
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
}

static int look(void *context, int worker, size_t item, struct err *err)
{
	struct verify *verify = context;
	const struct piece *piece = &verify->pieces[item];
	struct checked *weight = &verify->weights[piece->weight];
	const struct weight_scale *scale = &weight->unit.source_scale;
	struct desk *desk = &verify->desks[worker];
	struct scan found = { 0 };
	struct view view = { .weight = weight, .region = &piece->region };
	void *scales;

	if (read_codes(verify, piece, desk->codes, err) ||
	    source_scales(&verify->files, &weight->unit, &piece->region, &scales, err))
		return -1;
	view.format = weight_format(weight);
	view.tile_rows = scale->tile.rows == WHOLE ? piece->region.n_rows : scale->tile.rows;
	view.tile_cols = scale->tile.cols == WHOLE ? piece->region.n_cols : scale->tile.cols;
	view.scales = scales;
	view.low = verify_low_code(verify, view.format);
	view.floor = verify_floor_scale(verify);
	view.grid_cols = tile_count(weight->unit.cols, scale->tile.cols);
	view.first_col = scale->tile.cols == WHOLE ? 0 : piece->region.col / scale->tile.cols;
	scan_scales(&view, &found);
	for (uint64_t row = 0; row < piece->region.n_rows; row += view.tile_rows) {
		uint64_t left = piece->region.n_rows - row;

		scan_tiles(&view, desk->codes, row, left < view.tile_rows ? left : view.tile_rows, &found);
	}
	if (weight->origin && compare_piece(verify, desk, piece, scales, &found, err)) {
		free(scales);
		return -1;
	}
	free(scales);
	atomic_fetch_add(&verify->progress->done, piece->region.n_rows * piece->region.n_cols);
	pthread_mutex_lock(&verify->lock);
	scan_merge(&weight->scan, &found);
	pthread_mutex_unlock(&verify->lock);
	return 0;
}

static uint64_t count_off(const struct verify *verify)
{
	uint64_t n = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		n += verify->weights[w].scan.n_codes_off + verify->weights[w].scan.n_scales_off;
	return n;
}

/* Looks again by another arithmetic, and keeps what fits better: some differ in one code of thousands. */
static int look_again(struct verify *verify, size_t n_pieces, uint64_t *n_off, struct err *err)
{
	const char *arithmetic = verify->result->arithmetic;
	struct scan *before = xcalloc(verify->n_weights, sizeof *before);
	uint64_t again;
	int rc = -1;

	for (size_t w = 0; w < verify->n_weights; w++) {
		before[w] = verify->weights[w].scan;
		verify->weights[w].scan = (struct scan){ 0 };
	}
	verify_next_trial(verify);
	if (pool_run(verify->params->n_threads, n_pieces, look, verify, verify->progress->stop, err))
		goto out;
	again = count_off(verify);
	if (again >= *n_off) {
		for (size_t w = 0; w < verify->n_weights; w++)
			verify->weights[w].scan = before[w];
		verify->result->arithmetic = arithmetic;
	} else {
		*n_off = again;
	}
	rc = 0;
out:
	free(before);
	return rc;
}

static int look_at_all(struct verify *verify, size_t n_pieces, struct err *err)
{
	uint64_t n_off;

	if (pool_run(verify->params->n_threads, n_pieces, look, verify, verify->progress->stop, err))
		return -1;
	n_off = count_off(verify);
	while (n_off && verify_has_trials(verify))
		if (look_again(verify, n_pieces, &n_off, err))
			return -1;
	return 0;
}

int verify_values(struct verify *verify, struct err *err)
{
	struct piece *pieces = NULL;
	size_t n = 0;
	int rc = -1;

	pieces_cut(verify, &pieces, &n);
	verify->pieces = pieces;
	if (desks_new(&verify->desks, verify, err) || (verify->params->source && verify_origins(verify, pieces, n, err)) ||
	    look_at_all(verify, n, err) || source_close(&verify->files, err) || verify_origins_close(verify, err))
		goto out;
	verify_tell(verify);
	rc = 0;
out:
	desks_free(verify->desks, verify->params->n_threads);
	free(pieces);
	return rc;
}
