/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of a weight against the piece of the source that it was made from: by one arithmetic, to the bit; and which of all
 * those that are known it was.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "job/verify_origins.h"
#include "num/e8m0.h"
#include "num/fp8.h"

#define N_PROBES    16
#define BF16_SLACK   (1.0f / 128) /* two roundings of 8 bits each */
#define UNLIKE_MOST 0.02 /* share of codes and scales that may differ, where an arithmetic is taken for the one that was used */

static struct qspec spec_of(const struct checked *weight, const struct arithmetic *arithmetic)
{
	struct qspec spec = arithmetic->spec;

	spec.format = weight_format(weight);
	spec.tile = weight->unit.source_scale.tile;
	spec.scale_type = weight->unit.source_scale.scale_type;
	return spec;
}

/* Codes and scales that the arithmetic makes of x, to the desk. */
static void expect(struct verify *verify, struct desk *desk, const struct checked *weight, const struct matrix *x,
		   const struct arithmetic *arithmetic, bool own_amax)
{
	struct qspec spec = spec_of(weight, arithmetic);
	struct quant_stats stats = { 0 };
	size_t n_cols = tile_count(x->cols, spec.tile.cols);
	size_t n_tiles = tile_count(x->rows, spec.tile.rows) * n_cols;
	struct quant_out out = { .codes = desk->expected,
				 .stride = x->cols,
				 .scale_inv = desk->expected_scales,
				 .scale_stride = n_cols,
				 .stats = &stats };
	float amax = own_amax || weight->group == SIZE_MAX ? weight->amax : verify->origins->group_amax[weight->group];
	uint64_t n_nonfinite = 0;
	float *amaxes = &amax;

	if (spec.tile.rows != WHOLE && !arithmetic->quantize) {
		backend_quantize(verify->backend, x, &spec, &out);
		return;
	}
	if (spec.tile.rows != WHOLE) {
		amaxes = xcalloc(n_tiles, sizeof *amaxes);
		backend_amax(verify->backend, x, spec.tile, amaxes, n_cols, &n_nonfinite);
	}
	if (arithmetic->quantize)
		arithmetic->quantize(x, &spec, amaxes, &out);
	else
		backend_cast(verify->backend, x, &spec, amaxes, n_cols, &out);
	if (amaxes != &amax)
		free(amaxes);
}

static void count_off(uint64_t *n, uint64_t *first, uint64_t at)
{
	if (!*n || at < *first)
		*first = at;
	++*n;
}

static void compare_codes(const struct checked *weight, const struct region *region, const struct desk *desk,
			  struct scan *found)
{
	for (uint64_t r = 0; r < region->n_rows; r++) {
		const uint8_t *here = desk->codes + r * region->n_cols, *there = desk->expected + r * region->n_cols;

		if (!memcmp(here, there, region->n_cols))
			continue;
		for (uint64_t c = 0; c < region->n_cols; c++)
			if (here[c] != there[c])
				count_off(&found->n_codes_off, &found->first_code_off,
					  (region->row + r) * weight->unit.cols + region->col + c);
	}
}

static void compare_scales(const struct checked *weight, const struct region *region, const void *scales,
			   const char *expected, struct scan *found)
{
	struct tile tile = weight->unit.source_scale.tile;
	size_t size = scale_size(weight->unit.source_scale.scale_type);
	uint64_t grid_cols = tile_count(weight->unit.cols, tile.cols);
	uint64_t n_rows = tile_count(region->n_rows, tile.rows), n_cols = tile_count(region->n_cols, tile.cols);
	uint64_t first_row = tile.rows == WHOLE ? 0 : region->row / tile.rows;
	uint64_t first_col = tile.cols == WHOLE ? 0 : region->col / tile.cols;

	if (tile.rows == WHOLE && region->row)
		return;
	for (uint64_t row = 0; row < n_rows; row++) {
		const char *here = (const char *)scales + (row * grid_cols + first_col) * size;

		for (uint64_t col = 0; col < n_cols; col++)
			if (memcmp(here + col * size, expected + (row * n_cols + col) * size, size) != 0)
				count_off(&found->n_scales_off, &found->first_scale_off,
					  (first_row + row) * grid_cols + first_col + col);
	}
}

static void add_error(const struct verify *verify, const struct checked *weight, const struct region *region,
		      const struct desk *desk, const struct matrix *x, const void *scales, struct scan *found)
{
	const struct weight_scale *scale = &weight->unit.source_scale;
	uint64_t first_col = scale->tile.cols == WHOLE ? 0 : region->col / scale->tile.cols;
	struct quant_in q = { .codes = desk->codes,
			      .rows = region->n_rows,
			      .cols = region->n_cols,
			      .stride = region->n_cols,
			      .format = weight_format(weight),
			      .tile = scale->tile,
			      .scale_type = scale->scale_type,
			      .scale_inv = (const char *)scales + first_col * scale_size(scale->scale_type),
			      .scale_stride = tile_count(weight->unit.cols, scale->tile.cols) };

	backend_error(verify->backend, x, &q, &found->signal, &found->noise);
}

static float scale_at(const struct checked *weight, const struct region *region, const void *scales, uint64_t row,
		      uint64_t col)
{
	struct tile tile = weight->unit.source_scale.tile;
	uint64_t i = (tile.rows == WHOLE ? 0 : row / tile.rows) * tile_count(weight->unit.cols, tile.cols) +
		     (tile.cols == WHOLE ? 0 : (region->col + col) / tile.cols);
	float scale;

	if (weight->unit.source_scale.scale_type == SCALE_E8M0)
		return e8m0_to_f32(((const uint8_t *)scales)[i]);
	memcpy(&scale, (const char *)scales + 4 * i, 4);
	return scale;
}

/* From a code up to half the way to the next: the larger of its two sides. */
static float half_step(enum fp8_format format, uint8_t code)
{
	uint8_t magnitude = code & 0x7F;

	if (magnitude == (format == FP8_E4M3 ? 0x7E : 0x7B))
		magnitude--;
	return (fp8_to_f32(format, (uint8_t)(magnitude + 1)) - fp8_to_f32(format, magnitude)) / 2;
}

/* By no arithmetic that is known: no value further from the source than half a step of its code, give or take what the
 * rounding of quotients and scales to bf16 does. */
static void compare_bound(const struct checked *weight, const struct region *region, const struct desk *desk,
			  const struct matrix *x, const void *scales, struct scan *found)
{
	enum fp8_format format = weight_format(weight);

	for (uint64_t r = 0; r < region->n_rows; r++) {
		for (uint64_t c = 0; c < region->n_cols; c++) {
			uint8_t code = desk->codes[r * region->n_cols + c];
			float scale = scale_at(weight, region, scales, r, c);
			float value = matrix_at(x, r, c), back = fp8_to_f32(format, code) * scale;
			float most = half_step(format, code) * scale + BF16_SLACK * fabsf(back);

			if (!(fabsf(value - back) <= most))
				count_off(&found->n_codes_off, &found->first_code_off,
					  (region->row + r) * weight->unit.cols + region->col + c);
		}
	}
}

int compare_piece(struct verify *verify, struct desk *desk, const struct piece *piece, const void *scales,
		  struct scan *found, struct err *err)
{
	const struct origins *origins = verify->origins;
	const struct checked *weight = &verify->weights[piece->weight];
	const struct source_tee nowhere = { 0 };
	struct matrix x;

	if (source_read(&verify->origins->files, weight->origin, &piece->region, &desk->source, &nowhere, &x, err))
		return -1;
	add_error(verify, weight, &piece->region, desk, &x, scales, found);
	if (!origins->n_trials) {
		compare_bound(weight, &piece->region, desk, &x, scales, found);
		return 0;
	}
	expect(verify, desk, weight, &x, origins->trials->arithmetic, origins->trials->own_amax);
	compare_codes(weight, &piece->region, desk, found);
	compare_scales(weight, &piece->region, scales, desk->expected_scales, found);
	return 0;
}

/* --- which arithmetic --- */

/* Pieces that an arithmetic is tried on: the first of some weights, evenly spaced. */
struct probe {
	const struct piece *pieces[N_PROBES];
	size_t n;
};

static struct probe probe_new(const struct verify *verify, const struct piece *pieces, size_t n_pieces)
{
	struct probe probe = { 0 };
	size_t n_weights = 0, seen = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		n_weights += verify->weights[w].scanned && verify->weights[w].origin;
	for (size_t i = 0; i < n_pieces && probe.n < N_PROBES; i++) {
		const struct piece *piece = &pieces[i];

		if (piece->region.row || piece->region.col || !verify->weights[piece->weight].origin)
			continue;
		if (seen++ * N_PROBES >= probe.n * n_weights)
			probe.pieces[probe.n++] = piece;
	}
	return probe;
}

/* The share of codes and scales that the arithmetic makes otherwise. */
static int try_arithmetic(struct verify *verify, const struct probe *probe, const struct arithmetic *arithmetic,
			  bool own_amax, double *share, struct err *err)
{
	const struct source_tee nowhere = { 0 };
	struct desk *desk = &verify->desks[0];
	struct scan found = { 0 };
	double n = 0;

	for (size_t i = 0; i < probe->n; i++) {
		const struct piece *piece = probe->pieces[i];
		const struct checked *weight = &verify->weights[piece->weight];
		struct matrix x;
		void *scales;

		if (weight->unit.source_scale.scale_type != arithmetic->scale_type)
			continue;
		if (read_codes(verify, piece, desk->codes, err) ||
		    source_read(&verify->origins->files, weight->origin, &piece->region, &desk->source, &nowhere, &x,
				err) ||
		    source_scales(&verify->files, &weight->unit, &piece->region, &scales, err))
			return -1;
		expect(verify, desk, weight, &x, arithmetic, own_amax);
		compare_codes(weight, &piece->region, desk, &found);
		compare_scales(weight, &piece->region, scales, desk->expected_scales, &found);
		free(scales);
		n += (double)(piece->region.n_rows * piece->region.n_cols);
	}
	*share = n > 0 ? (double)(found.n_codes_off + found.n_scales_off) / n : 1;
	return 0;
}

int find_arithmetic(struct verify *verify, const struct piece *pieces, size_t n_pieces, struct err *err)
{
	struct origins *origins = verify->origins;
	const struct probe probe = probe_new(verify, pieces, n_pieces);
	double least = UNLIKE_MOST, share;

	for (const struct arithmetic *row = verify->recorded.name ? &verify->recorded : arithmetics; row->name;
	     row = row == &verify->recorded ? arithmetics : row + 1) {
		for (int own = 0; own < 2; own++) {
			if (try_arithmetic(verify, &probe, row, own, &share, err))
				return -1;
			if (share < least)
				origins->n_trials = 0;
			if (share <= least && share < UNLIKE_MOST && origins->n_trials < MAX_TRIALS) {
				least = share;
				origins->trials[origins->n_trials++] = (struct trial){ row, own };
			}
		}
	}
	return 0;
}
