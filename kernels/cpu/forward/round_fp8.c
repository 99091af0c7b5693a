/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantizes and dequantizes a band of rows at a time, so that its codes stay in the nearest caches:
 * 4 bytes read from memory for each element, and 2 or 4 written.  If a tile has all rows, x is read
 * once more before, for the amax.
 */
#include "kernels/cpu/forward/round_fp8.h"

#include <string.h>

#include "backend/dispatch.h"

#define BAND_VALUES ((size_t)64 << 10) /* 64 KiB of codes, 256 KiB of x */

static const char what[] = "the codes of a band in FP8";

/* The amax of each tile of the whole x, where a band holds no tile; or its scale. */
static int find_amaxes(const struct backend *backend, struct round_fp8_space *space,
		       const struct round_fp8_args *args, const float **amaxes, struct err *err)
{
	const struct matrix x = { args->x, DT_F32, args->n_rows, args->n_cols, args->n_cols };
	const struct tile tile = args->spec.tile;
	size_t n = tile_count(args->n_cols, tile.cols);
	uint64_t n_nonfinite = 0;

	*amaxes = NULL;
	if (args->spec.arith == ARITH_GIVEN)
		*amaxes = &args->scale;
	if (args->spec.arith == ARITH_GIVEN || tile.rows != WHOLE)
		return 0;
	if (buffer_ensure(&space->amaxes, n * sizeof(float), what, err))
		return -1;
	memset(space->amaxes.data, 0, n * sizeof(float));
	backend_amax(backend, &x, tile, space->amaxes.data, n, &n_nonfinite);
	*amaxes = space->amaxes.data;
	return 0;
}

/* Returns how many rows to take at a time: whole tiles, or any number of a tile that has all. */
static size_t band_rows(const struct round_fp8_args *args)
{
	size_t tile = args->spec.tile.rows == WHOLE ? 1 : args->spec.tile.rows;
	size_t n = BAND_VALUES / args->n_cols / tile * tile;

	n = n ? n : tile;
	return n < args->n_rows ? n : args->n_rows;
}

/* Returns how many values have a code of zero and are none. */
static uint64_t count_zeros(const float *x, const uint8_t *codes, size_t n)
{
	uint64_t zeros = 0;

	for (size_t i = 0; i < n; i++)
		zeros += (codes[i] & 0x7F) == 0 && x[i] != 0;
	return zeros;
}

/* A band: rows [first, first + n), and the codes of its values. */
struct row_band {
	size_t first, n;
	const float *amaxes; /* of find_amaxes() */
	struct round_fp8_space *space;
};

static void band_run(const struct backend *backend, const struct row_band *band,
		     const struct round_fp8_args *args)
{
	const struct qspec *spec = &args->spec;
	size_t cols = args->n_cols, at = band->first * cols,
	       n_across = tile_count(cols, spec->tile.cols);
	size_t value_size = dtype_bits(args->dtype) / 8;
	const struct matrix x = { args->x + at, DT_F32, band->n, cols, cols };
	struct quant_stats stats = { 0 };
	const struct quant_out out = { .codes = band->space->codes.data,
				       .stride = cols,
				       .scale_inv = band->space->scales.data,
				       .scale_stride = n_across,
				       .stats = &stats };
	const struct quant_in in = { .codes = out.codes,
				     .rows = band->n,
				     .cols = cols,
				     .stride = cols,
				     .format = spec->format,
				     .tile = spec->tile,
				     .scale_type = spec->scale_type,
				     .scale_inv = spec->arith == ARITH_GIVEN ? &args->scale_inv
									     : out.scale_inv,
				     .scale_stride = n_across };

	backend_cast(backend, &x, spec, band->amaxes, n_across, &out);
	if (args->counts) {
		args->counts->n_saturated += stats.saturated;
		args->counts->n_zeros += count_zeros(x.data, out.codes, band->n * cols);
	}
	backend_dequantize(backend, &in, args->dtype, (char *)args->y + at * value_size, cols);
}

int round_fp8_run(const struct backend *backend, struct round_fp8_space *space,
		  const struct round_fp8_args *args, struct err *err)
{
	struct row_band band = { .space = space };
	size_t max, n_scales;

	if (args->n_rows == 0 || args->n_cols == 0)
		return 0;
	max = band_rows(args);
	n_scales = tile_count(max, args->spec.tile.rows) *
		   tile_count(args->n_cols, args->spec.tile.cols);
	if (buffer_ensure(&space->codes, (uint64_t)max * args->n_cols, what, err) ||
	    buffer_ensure(&space->scales, (uint64_t)n_scales * sizeof(float), what, err) ||
	    find_amaxes(backend, space, args, &band.amaxes, err))
		return -1;
	for (; band.first < args->n_rows; band.first += band.n) {
		size_t left = args->n_rows - band.first;

		band.n = left < max ? left : max;
		band_run(backend, &band, args);
	}
	return backend->failed(err);
}

void round_fp8_release(struct round_fp8_space *space)
{
	buffer_release(&space->codes);
	buffer_release(&space->scales);
	buffer_release(&space->amaxes);
}
