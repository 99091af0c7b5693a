/* SPDX-License-Identifier: Apache-2.0
 *
 * A cut of a weight against the cut of the source that it was made from: by one arithmetic, to
 * the bit, or within what any may do; and what our own would have lost.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "verify/origin.h"
#include "num/e8m0.h"
#include "num/fp8.h"

#define BF16_SLACK (1.0f / 128) /* two roundings of 8 bits each */

static struct qspec spec_of(const struct checked *weight, const struct arithmetic *arithmetic)
{
	struct qspec spec = arithmetic->spec;

	spec.format = weight_format(weight);
	spec.tile = weight->unit.source_scale.tile;
	spec.scale_type = weight->unit.source_scale.scale_type;
	return spec;
}

void expect(struct verify *verify, struct desk *desk, const struct checked *weight,
	    const struct matrix *x, const struct trial *trial)
{
	const struct arithmetic *arithmetic = trial->arithmetic;
	struct qspec spec = spec_of(weight, arithmetic);
	struct quant_stats stats = { 0 };
	size_t n_cols = tile_count(x->cols, spec.tile.cols);
	size_t n_tiles = tile_count(x->rows, spec.tile.rows) * n_cols;
	struct quant_out out = { .codes = desk->expected,
				 .stride = x->cols,
				 .scale_inv = desk->expected_scales,
				 .scale_stride = n_cols,
				 .stats = &stats };
	float amax = trial->own_amax || weight->group == SIZE_MAX
			     ? weight->amax
			     : verify->origins->group_amax[weight->group];
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

static void compare_codes(const struct checked *weight, const struct rect *rect,
			  const struct desk *desk, struct scan *found)
{
	for (uint64_t r = 0; r < rect->n_rows; r++) {
		const uint8_t *here = desk->codes + r * rect->n_cols,
			      *there = desk->expected + r * rect->n_cols;

		if (!memcmp(here, there, rect->n_cols))
			continue;
		for (uint64_t c = 0; c < rect->n_cols; c++)
			if (here[c] != there[c])
				count_off(&found->n_codes_off, &found->first_code_off,
					  (rect->row + r) * weight->unit.cols + rect->col + c);
	}
}

static void compare_scales(const struct checked *weight, const struct rect *rect,
			   const void *scales, const char *expected, struct scan *found)
{
	struct tile tile = weight->unit.source_scale.tile;
	size_t size = scale_size(weight->unit.source_scale.scale_type);
	uint64_t grid_cols = tile_count(weight->unit.cols, tile.cols);
	uint64_t n_rows = tile_count(rect->n_rows, tile.rows),
		 n_cols = tile_count(rect->n_cols, tile.cols);
	uint64_t first_row = tile.rows == WHOLE ? 0 : rect->row / tile.rows;
	uint64_t first_col = tile.cols == WHOLE ? 0 : rect->col / tile.cols;

	if (tile.rows == WHOLE && rect->row)
		return;
	for (uint64_t row = 0; row < n_rows; row++) {
		const char *here = (const char *)scales + (row * grid_cols + first_col) * size;

		for (uint64_t col = 0; col < n_cols; col++)
			if (memcmp(here + col * size, expected + (row * n_cols + col) * size,
				   size) != 0)
				count_off(&found->n_scales_off, &found->first_scale_off,
					  (first_row + row) * grid_cols + first_col + col);
	}
}

void compare_expected(const struct checked *weight, const struct rect *rect,
		      const struct desk *desk, const void *scales, struct scan *found)
{
	compare_codes(weight, rect, desk, found);
	compare_scales(weight, rect, scales, desk->expected_scales, found);
}

/* codes and scales of a cut; scales: those of the cut alone, or whole rows of the grid, from
 * scale_inv on. */
static struct quant_in quant_in(const struct checked *weight, const struct rect *rect,
				const uint8_t *codes, const char *scale_inv, uint64_t scale_stride)
{
	return (struct quant_in){ .codes = codes,
				  .rows = rect->n_rows,
				  .cols = rect->n_cols,
				  .stride = rect->n_cols,
				  .format = weight_format(weight),
				  .tile = weight->unit.source_scale.tile,
				  .scale_type = weight->unit.source_scale.scale_type,
				  .scale_inv = scale_inv,
				  .scale_stride = scale_stride };
}

static void add_error(const struct verify *verify, const struct checked *weight,
		      const struct rect *rect, const struct desk *desk, const struct matrix *x,
		      const void *scales, struct scan *found)
{
	const struct weight_scale *scale = &weight->unit.source_scale;
	uint64_t first_col = scale->tile.cols == WHOLE ? 0 : rect->col / scale->tile.cols;
	struct quant_in q =
		quant_in(weight, rect, desk->codes,
			 (const char *)scales + first_col * scale_size(scale->scale_type),
			 tile_count(weight->unit.cols, scale->tile.cols));

	backend_error(verify->backend, x, &q, &found->signal, &found->noise);
}

/* The error that our own arithmetic would have made of the cut. */
static void add_own_error(struct verify *verify, struct desk *desk, const struct checked *weight,
			  const struct rect *rect, const struct matrix *x,
			  const struct arithmetic *own, struct scan *found)
{
	const struct trial trial = { own, false };
	struct quant_in q = quant_in(weight, rect, desk->expected, desk->expected_scales,
				     tile_count(rect->n_cols, weight->unit.source_scale.tile.cols));
	double signal = 0;

	expect(verify, desk, weight, x, &trial);
	backend_error(verify->backend, x, &q, &signal, &found->own_noise);
}

static float scale_at(const struct checked *weight, const struct rect *rect, const void *scales,
		      uint64_t row, uint64_t col)
{
	struct tile tile = weight->unit.source_scale.tile;
	uint64_t i = (tile.rows == WHOLE ? 0 : row / tile.rows) *
			     tile_count(weight->unit.cols, tile.cols) +
		     (tile.cols == WHOLE ? 0 : (rect->col + col) / tile.cols);
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

/* Values of codes, and how far from each the source may be: half a step, give or take what the
 * rounding of quotients and scales to bf16 does.  NaN, which nothing is near to, for what is not
 * finite. */
struct bounds {
	float value[256], most[256];
};

static void bounds_make(struct bounds *bounds, enum fp8_format format)
{
	for (int code = 0; code < 256; code++) {
		float value = bounds->value[code] = fp8_to_f32(format, (uint8_t)code);

		bounds->most[code] = half_step(format, (uint8_t)code) + BF16_SLACK * fabsf(value);
	}
}

static bool within(const struct bounds *bounds, uint8_t code, float scale, float x)
{
	return fabsf(x - bounds->value[code] * scale) <= bounds->most[code] * scale;
}

/* By no arithmetic that is known. */
static void compare_bound(const struct checked *weight, const struct rect *rect,
			  const struct desk *desk, const struct matrix *x, const void *scales,
			  struct scan *found)
{
	size_t tile_cols = weight->unit.source_scale.tile.cols;
	uint64_t n = tile_cols == WHOLE ? rect->n_cols : tile_cols;
	struct bounds bounds;

	bounds_make(&bounds, weight_format(weight));
	for (uint64_t r = 0; r < rect->n_rows; r++) {
		const uint8_t *codes = desk->codes + r * rect->n_cols;

		for (uint64_t col = 0; col < rect->n_cols; col += n) {
			float scale = scale_at(weight, rect, scales, r, col);
			uint64_t end = rect->n_cols - col < n ? rect->n_cols : col + n;

			for (uint64_t c = col; c < end; c++)
				if (!within(&bounds, codes[c], scale, matrix_at(x, r, c)))
					count_off(&found->n_codes_off, &found->first_code_off,
						  (rect->row + r) * weight->unit.cols + rect->col +
							  c);
		}
	}
}

int compare_piece(struct verify *verify, struct desk *desk, const struct cut *cut,
		  const void *scales, struct scan *found, struct err *err)
{
	const struct checked *weight = &verify->weights[cut->weight];
	const struct trials *trials = &verify->origins->trials[weight->granularity];
	const struct source_tee nowhere = { 0 };
	struct matrix x;

	if (source_read(&verify->origins->files, weight->origin, &cut->rect, &desk->source,
			&nowhere, &x, err))
		return -1;
	if (verify->params->sqnr)
		add_error(verify, weight, &cut->rect, desk, &x, scales, found);
	if (verify->params->sqnr && trials->own.name)
		add_own_error(verify, desk, weight, &cut->rect, &x, &trials->own, found);
	if (!trials->n) {
		compare_bound(weight, &cut->rect, desk, &x, scales, found);
	} else if (!weight->unlike) {
		expect(verify, desk, weight, &x, &trials->list[trials->at]);
		compare_expected(weight, &cut->rect, desk, scales, found);
	}
	return backend_failed(verify->backend, weight->unit.name, err);
}
