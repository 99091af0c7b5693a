/* SPDX-License-Identifier: Apache-2.0
 *
 * A cut against its source: by one arithmetic, to the bit, or within what any rounding to nearest
 * may do; and what fp8conv's own would have lost.
 */
#include "verify/values/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "num/fp8.h"
#include "num/scale_grid.h"
#include "verify/values/diagnose.h"
#include "verify/values/origin.h"

#define BF16_SLACK (1.0f / 128) /* two roundings of 8 bits each */

static struct qspec spec_of(const struct verify_weight *weight, const struct arithmetic *arithmetic)
{
	struct qspec spec = arithmetic->spec;

	spec.format = verify_weight_format(weight);
	spec.tile = weight->unit.source_scale.tile;
	spec.scale_type = weight->unit.source_scale.scale_type;
	return spec;
}

/* May the weight have the codes of its source? */
static bool may_have_same(const struct verify_weight *weight)
{
	const struct weight_scale *scale = &weight->unit.source_scale;
	const struct weight_scale *from = &weight->origin->source_scale;

	return from->scale && !weight->unit.table && from->tile.rows == scale->tile.rows &&
	       from->tile.cols == scale->tile.cols &&
	       weight->origin->source->tensor->dtype == weight->unit.source->tensor->dtype;
}

int compare_open(struct verify *verify, struct comparison *comparison, struct err *err)
{
	const struct unit *origin = comparison->weight->origin;
	struct source *files = &verify->run.origin->files;
	struct source_request request = { .unit = origin,
					  .rect = *comparison->rect,
					  .buffers = comparison->worker->source };

	if (source_read(files, &request, &comparison->x, err))
		return -1;
	if (!may_have_same(comparison->weight))
		return 0;
	comparison->source_codes = request.buffers.raw; /* free again: x is decoded */
	if (source_codes(files, origin, comparison->rect, request.buffers.raw, err))
		return -1;
	return source_scales(files, origin, comparison->rect, &comparison->source_scales, err);
}

void compare_close(struct comparison *comparison)
{
	free(comparison->source_scales);
	comparison->source_scales = NULL;
}

/* Writes what the candidate makes of x.  own_amax: of this weight, not of its fused set. */
static void expect_cast(const struct verify *verify, const struct comparison *comparison,
			const struct arithmetic_candidate *candidate, bool own_amax)
{
	const struct verify_weight *weight = comparison->weight;
	const struct verify_worker *worker = comparison->worker;
	const struct matrix *x = &comparison->x;
	const struct arithmetic *arithmetic = candidate->arithmetic;
	struct qspec spec = spec_of(weight, arithmetic);
	struct quant_stats stats = { 0 };
	size_t n_cols = tile_count(x->cols, spec.tile.cols);
	size_t n_tiles = tile_count(x->rows, spec.tile.rows) * n_cols;
	struct quant_out out = { .codes = worker->expected,
				 .stride = x->cols,
				 .scale_inv = worker->expected_scales,
				 .scale_stride = n_cols,
				 .stats = &stats };
	float amax = own_amax || weight->fused_set == SIZE_MAX
			     ? weight->amax
			     : verify->run.origin->fused_amax[weight->fused_set];
	uint64_t n_nonfinite = 0;
	float *amaxes = &amax;

	if (spec.tile.rows != WHOLE && !arithmetic->quantize) {
		backend_cast(verify->run.backend, x, &spec, NULL, 0, &out);
		return;
	}
	if (spec.tile.rows != WHOLE) {
		amaxes = xcalloc(n_tiles, sizeof *amaxes);
		backend_amax(verify->run.backend, x, spec.tile, amaxes, n_cols, &n_nonfinite);
	}
	if (arithmetic->quantize)
		arithmetic->quantize(arithmetic, x, &spec, amaxes, &out);
	else
		backend_cast(verify->run.backend, x, &spec, amaxes, n_cols, &out);
	if (amaxes != &amax)
		free(amaxes);
}

/* Expects the codes of the source in the tiles that have its scale: what has another scale was
 * quantized again. */
static void expect_same(const struct comparison *comparison)
{
	const struct weight_scale *scale = &comparison->weight->unit.source_scale;
	const struct rect *rect = comparison->rect;
	const struct verify_worker *worker = comparison->worker;
	size_t size = scale_size(scale->scale_type);
	uint64_t tile_rows = scale->tile.rows == WHOLE ? rect->n_rows : scale->tile.rows;
	uint64_t tile_cols = scale->tile.cols == WHOLE ? rect->n_cols : scale->tile.cols;
	uint64_t grid_cols = tile_count(comparison->weight->unit.cols, scale->tile.cols);
	uint64_t first_col = scale->tile.cols == WHOLE ? 0 : rect->col / scale->tile.cols;
	uint64_t n_cols = tile_count(rect->n_cols, scale->tile.cols);

	for (uint64_t row = 0; row < rect->n_rows; row++) {
		for (uint64_t t = 0; t < n_cols; t++) {
			uint64_t i = row / tile_rows * grid_cols + first_col + t;
			uint64_t at = row * rect->n_cols + t * tile_cols;
			uint64_t rest = rect->n_cols - t * tile_cols;

			if (scale_grid_at(comparison->scales, scale->scale_type, i) !=
			    scale_grid_at(comparison->source_scales,
					  comparison->weight->origin->source_scale.scale_type, i))
				continue;
			memcpy(worker->expected + at, comparison->source_codes + at,
			       rest < tile_cols ? rest : tile_cols);
			memcpy(worker->expected_scales + (row / tile_rows * n_cols + t) * size,
			       (const char *)comparison->scales + i * size, size);
		}
	}
}

void compare_expect(const struct verify *verify, const struct comparison *comparison,
		    const struct arithmetic_candidate *candidate)
{
	expect_cast(verify, comparison, candidate, candidate->own_amax);
	/* ModelOpt merges the scales of an expert, but not of attention. */
	if (candidate->own_amax && comparison->weight->fused_set != SIZE_MAX &&
	    memcmp(comparison->scales, comparison->worker->expected_scales, sizeof(float)) != 0)
		expect_cast(verify, comparison, candidate, false);
	if (comparison->source_scales)
		expect_same(comparison);
}

/* Returns the place in the weight's tensor of an element of the cut. */
static uint64_t place(const struct comparison *comparison, uint64_t row, uint64_t col)
{
	return comparison->weight->unit.slice.first +
	       (comparison->rect->row + row) * comparison->weight->unit.cols +
	       comparison->rect->col + col;
}

static void compare_codes(const struct comparison *comparison, struct scan *found)
{
	const struct verify_worker *worker = comparison->worker;
	uint64_t n_cols = comparison->rect->n_cols;

	for (uint64_t r = 0; r < comparison->rect->n_rows; r++) {
		const uint8_t *codes = worker->codes + r * n_cols;
		const uint8_t *expected = worker->expected + r * n_cols;

		if (!memcmp(codes, expected, n_cols))
			continue;
		for (uint64_t c = 0; c < n_cols; c++)
			if (codes[c] != expected[c])
				finding_add(&found->codes_off, place(comparison, r, c), 0);
	}
}

static void compare_scales(const struct comparison *comparison, struct scan *found)
{
	const struct weight_scale *scale = &comparison->weight->unit.source_scale;
	const struct rect *rect = comparison->rect;
	struct tile tile = scale->tile;
	size_t size = scale_size(scale->scale_type);
	uint64_t grid_cols = tile_count(comparison->weight->unit.cols, tile.cols);
	uint64_t n_rows = tile_count(rect->n_rows, tile.rows);
	uint64_t n_cols = tile_count(rect->n_cols, tile.cols);
	uint64_t first_row = tile.rows == WHOLE ? 0 : rect->row / tile.rows;
	uint64_t first_col = tile.cols == WHOLE ? 0 : rect->col / tile.cols;

	if (tile.rows == WHOLE && rect->row)
		return;
	for (uint64_t row = 0; row < n_rows; row++) {
		const char *stored =
			(const char *)comparison->scales + (row * grid_cols + first_col) * size;
		const char *expected = comparison->worker->expected_scales + row * n_cols * size;

		for (uint64_t col = 0; col < n_cols; col++)
			if (memcmp(stored + col * size, expected + col * size, size) != 0)
				finding_add(&found->scales_off,
					    comparison->weight->first_scale +
						    (first_row + row) * grid_cols + first_col + col,
					    0);
	}
}

void compare_expected(const struct comparison *comparison, struct scan *found)
{
	compare_codes(comparison, found);
	compare_scales(comparison, found);
}

/* Returns the codes of the cut with the scales from scale_inv on. */
static struct quant_in quant_in(const struct comparison *comparison, const uint8_t *codes,
				const char *scale_inv, uint64_t scale_stride)
{
	const struct verify_weight *weight = comparison->weight;
	const struct rect *rect = comparison->rect;

	return (struct quant_in){ .codes = codes,
				  .rows = rect->n_rows,
				  .cols = rect->n_cols,
				  .stride = rect->n_cols,
				  .format = verify_weight_format(weight),
				  .tile = weight->unit.source_scale.tile,
				  .scale_type = weight->unit.source_scale.scale_type,
				  .scale_inv = scale_inv,
				  .scale_stride = scale_stride };
}

/* Returns the codes of the cut as they are in the file. */
static struct quant_in stored_codes(const struct comparison *comparison)
{
	const struct weight_scale *scale = &comparison->weight->unit.source_scale;
	size_t size = scale_size(scale->scale_type);
	uint64_t first_col =
		scale->tile.cols == WHOLE ? 0 : comparison->rect->col / scale->tile.cols;

	return quant_in(comparison, comparison->worker->codes,
			(const char *)comparison->scales + first_col * size,
			tile_count(comparison->weight->unit.cols, scale->tile.cols));
}

/* Counts the values of a low-bit source that its codes do not hold. */
static void count_changed(const struct verify *verify, const struct comparison *comparison,
			  struct scan *found)
{
	const struct matrix *x = &comparison->x;
	struct quant_in q = stored_codes(comparison);
	float *values = comparison->worker->source.raw;

	backend_dequantize(verify->run.backend, &q, DT_F32, values, x->cols);
	found->n_changed += values_changed(x->data, values, x->rows * x->cols);
}

static void add_error(const struct verify *verify, const struct comparison *comparison,
		      struct scan *found)
{
	struct quant_in q = stored_codes(comparison);

	backend_error(verify->run.backend, &comparison->x, &q, &found->error);
}

/* Adds the error that fp8conv's own arithmetic makes in the cut. */
static void add_own_error(const struct verify *verify, const struct comparison *comparison,
			  const struct arithmetic *own, struct scan *found)
{
	const struct arithmetic_candidate candidate = { own, false };
	struct quant_in q = quant_in(comparison, comparison->worker->expected,
				     comparison->worker->expected_scales,
				     tile_count(comparison->rect->n_cols,
						comparison->weight->unit.source_scale.tile.cols));
	struct error_stats error = { 0 };

	compare_expect(verify, comparison, &candidate);
	backend_error(verify->run.backend, &comparison->x, &q, &error);
	found->own_noise += error.noise;
}

static float scale_at(const struct comparison *comparison, uint64_t row, uint64_t col)
{
	const struct weight_scale *stored = &comparison->weight->unit.source_scale;
	struct tile tile = stored->tile;
	uint64_t grid_cols = tile_count(comparison->weight->unit.cols, tile.cols);
	uint64_t i = (tile.rows == WHOLE ? 0 : row / tile.rows) * grid_cols +
		     (tile.cols == WHOLE ? 0 : (comparison->rect->col + col) / tile.cols);

	return scale_grid_at(comparison->scales, stored->scale_type, i);
}

/* Returns half the distance from a code to its neighbors, of which the larger distance counts. */
static float half_step(enum fp8_format format, uint8_t code)
{
	uint8_t magnitude = code & 0x7F;

	if (magnitude == fp8_max_code(format))
		magnitude--;
	return (fp8_to_f32(format, (uint8_t)(magnitude + 1)) - fp8_to_f32(format, magnitude)) / 2;
}

/* Values of codes, and the largest distance of a source value from each: half a step plus the
 * rounding of quotients and scales to bf16.  NaN, from which every distance is too large, for codes
 * that are not finite. */
struct bounds {
	float value[256], max[256];
};

static void bounds_make(struct bounds *bounds, enum fp8_format format)
{
	for (int code = 0; code < 256; code++) {
		float value = bounds->value[code] = fp8_to_f32(format, (uint8_t)code);

		bounds->max[code] = half_step(format, (uint8_t)code) + BF16_SLACK * fabsf(value);
	}
}

static bool within(const struct bounds *bounds, uint8_t code, float scale, float x)
{
	return fabsf(x - bounds->value[code] * scale) <= bounds->max[code] * scale;
}

/* Compares without a known arithmetic: by bounds of the rounding. */
static void compare_bound(const struct comparison *comparison, struct scan *found)
{
	const struct rect *rect = comparison->rect;
	size_t tile_cols = comparison->weight->unit.source_scale.tile.cols;
	uint64_t n = tile_cols == WHOLE ? rect->n_cols : tile_cols;
	struct bounds bounds;

	bounds_make(&bounds, verify_weight_format(comparison->weight));
	for (uint64_t r = 0; r < rect->n_rows; r++) {
		const uint8_t *codes = comparison->worker->codes + r * rect->n_cols;

		for (uint64_t col = 0; col < rect->n_cols; col += n) {
			float scale = scale_at(comparison, r, col);
			uint64_t end = rect->n_cols - col < n ? rect->n_cols : col + n;

			for (uint64_t c = col; c < end; c++)
				if (!within(&bounds, codes[c], scale,
					    matrix_at(&comparison->x, r, c)))
					finding_add(&found->codes_off, place(comparison, r, c), 0);
		}
	}
}

/* Compares a part of a table, which no option changes: to the bit if its scale is the power of two
 * that `quantize` takes, else by bounds. */
static void compare_table(const struct verify *verify, const struct comparison *comparison,
			  struct scan *found)
{
	static const struct arithmetic own = { .pow2 = true, .spec = { .pow2 = true } };

	compare_expect(verify, comparison, &(struct arithmetic_candidate){ &own, false });
	if (memcmp(comparison->scales, comparison->worker->expected_scales, sizeof(float)) != 0)
		compare_bound(comparison, found);
	else
		compare_codes(comparison, found);
}

/* Compares the scales of compensated codes to the bit.  Counts the codes that are not the nearest,
 * and measures their error: diagnose() judges a whole weight. */
static void compare_compensated(const struct verify *verify, const struct comparison *comparison,
				const struct arithmetic_candidate *candidate, struct scan *found)
{
	const struct verify_worker *worker = comparison->worker;
	uint64_t n_cols = comparison->rect->n_cols, n = comparison->rect->n_rows * n_cols;
	struct quant_in nearest =
		quant_in(comparison, worker->expected, worker->expected_scales,
			 tile_count(n_cols, comparison->weight->unit.source_scale.tile.cols));
	struct error_stats error = { 0 };

	compare_expect(verify, comparison, candidate);
	compare_scales(comparison, found);
	for (uint64_t i = 0; i < n; i++)
		if (worker->codes[i] != worker->expected[i])
			finding_add(&found->moved, place(comparison, i / n_cols, i % n_cols), 0);
	backend_error(verify->run.backend, &comparison->x, &nearest, &error);
	found->own_noise += error.noise;
	add_error(verify, comparison, found);
}

/* Adds what is found in a cut that is open. */
static void compare(const struct verify *verify, const struct comparison *comparison,
		    struct scan *found)
{
	const struct verify_weight *weight = comparison->weight;
	const struct candidates *candidates = &verify->run.origin->candidates[weight->granularity];

	if (weight->origin->low_bit)
		count_changed(verify, comparison, found);
	if (verify->opened.compensated && candidates->n && !weight->unit.table) {
		if (!weight->unlike)
			compare_compensated(verify, comparison, &candidates->list[candidates->at],
					    found);
		return;
	}
	if (verify->params->sqnr)
		add_error(verify, comparison, found);
	if (verify->params->sqnr && candidates->own.name && !weight->unit.table)
		add_own_error(verify, comparison, &candidates->own, found);
	if (weight->unit.table) {
		compare_table(verify, comparison, found);
	} else if (!candidates->n) {
		compare_bound(comparison, found);
	} else if (!weight->unlike) {
		compare_expect(verify, comparison, &candidates->list[candidates->at]);
		compare_expected(comparison, found);
	}
}

int compare_cut(struct verify *verify, struct verify_worker *worker, const struct cut *cut,
		const void *scales, struct scan *found, struct err *err)
{
	const struct verify_weight *weight = &verify->weights.list[cut->weight];
	struct comparison comparison = {
		.weight = weight, .rect = &cut->rect, .worker = worker, .scales = scales
	};
	int rc = compare_open(verify, &comparison, err);

	if (!rc)
		compare(verify, &comparison, found);
	compare_close(&comparison);
	return rc ? rc : backend_failed(verify->run.backend, weight->unit.name, err);
}
