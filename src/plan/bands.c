/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/bands.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "source/cut.h"

#define KIB ((uint64_t)1024)
#define MIB (KIB * KIB)

/* The source and the result of a band stay in a second-level cache of 2 MiB from the read to the
 * write. */
#define BAND_TARGET   (512 * KIB)
#define EXTENT_TARGET (256 * KIB)
#define EXTENT_DIRECT MIB /* small direct writes would wait for the disk */

/* Columns are cut at multiples of this number.  Every tile that is narrower than a row divides
 * it. */
#define COLUMN_STEP ((uint64_t)128)

/* A square of 128 x 128 fp32 values must fit; a worker holds the matrix, its source bytes and the
 * extent. */
#define BAND_MIN (64 * KIB)

/* The memory of the program itself, its libraries and stacks. */
#define BASE_MEMORY ((uint64_t)24 << 20)

static uint64_t smaller(uint64_t n, uint64_t max)
{
	return n < max ? n : max;
}

/* Sets limits for `memory` bytes a worker and a backend that works best on `band` bytes (0: a
 * CPU). */
static void limits_fit(struct band_limits *limits, uint64_t memory, uint64_t band)
{
	uint64_t extent = band ? band / 2 : EXTENT_TARGET;
	uint64_t max = smaller(memory / 4, band > 4 * MIB ? band : 4 * MIB);

	max &= ~(WRITER_ALIGN - (uint64_t)1);
	*limits = (struct band_limits){
		.target = smaller(band ? band : BAND_TARGET, max),
		.max = max,
		.extent = smaller(extent, max),
		.extent_direct = smaller(extent > EXTENT_DIRECT ? extent : EXTENT_DIRECT, max),
	};
}

uint64_t band_limits_memory(const struct band_limits *limits)
{
	return 3 * limits->max + limits->max / 8 + 2 * (uint64_t)WRITER_ALIGN;
}

int band_limits_plan(const struct convert_params *params, struct band_limits *limits,
		     uint64_t *bytes, struct err *err)
{
	uint64_t max = params->max_memory ? params->max_memory : DEFAULT_MAX_MEMORY;
	uint64_t n = (uint64_t)params->n_threads, base = BASE_MEMORY + params->io_memory;

	if (max < base + n * 4 * BAND_MIN)
		return err_set(err, ERR_USAGE,
			       "option '--max-memory': %" PRIu64 "K is too small for %" PRIu64
			       " thread%s: give at least %" PRIu64 "K, or reduce --threads",
			       max / KIB, n, n == 1 ? "" : "s",
			       (base + n * 4 * BAND_MIN + KIB - 1) / KIB);
	limits_fit(limits, (max - base) / n, params->backend->band);
	*bytes = base + n * band_limits_memory(limits);
	return 0;
}

static uint64_t element_size(const struct unit *unit)
{
	return dtype_bits(unit_dtype(unit)) / 8;
}

/* Returns the number of rows that must stay together: the rows of a tile, or of a block of the
 * source's scales. */
static uint64_t row_step(const struct unit *unit, const struct qspec *spec)
{
	uint64_t step = spec->tile.rows == WHOLE ? 1 : spec->tile.rows;

	return unit->source_scale.scale && step < COLUMN_STEP ? COLUMN_STEP : step;
}

bool unit_needs_amax(const struct unit *unit, const struct qspec *spec,
		     const struct band_limits *limits)
{
	if (spec->tile.rows == WHOLE)
		return true;
	return spec->tile.cols == WHOLE &&
	       row_step(unit, spec) * unit->cols * element_size(unit) > limits->max;
}

/* Returns the number of elements of a band.  MXFP4 is mostly quantized without a matrix in between:
 * the 49/32 bytes of an element and its code take half of the cache that BF16 takes. */
static uint64_t target_elements(const struct unit *unit, const struct qspec *spec,
				const struct band_limits *limits)
{
	bool is_mxfp4 = unit->low_bit && unit->low_bit->packing->dtype == DT_MXFP4;
	uint64_t size = element_size(unit);

	if (!is_mxfp4 || unit_needs_amax(unit, spec, limits))
		return limits->target / size;
	return smaller(limits->target, limits->max / size);
}

/* Computes the rows and columns of the unit's bands. */
static void band_shape(const struct unit *unit, const struct qspec *spec,
		       const struct band_limits *limits, uint64_t *n_rows, uint64_t *n_cols)
{
	uint64_t step = row_step(unit, spec);
	uint64_t size = element_size(unit);
	uint64_t n = target_elements(unit, spec, limits);
	uint64_t fit;

	/* A transposed unit is read by columns: square bands make these reads long. */
	if (unit->slice.col_stride != 1) {
		*n_rows = COLUMN_STEP * 8;
		while (*n_rows > step && *n_rows * COLUMN_STEP * size > limits->max)
			*n_rows /= 2;
		fit = limits->max / (*n_rows * size) / COLUMN_STEP * COLUMN_STEP;
		*n_cols = fit < unit->cols && spec->tile.cols != WHOLE ? fit : unit->cols;
		if (*n_rows * *n_cols * size <= limits->max)
			return;
	}
	if (step * unit->cols * size <= limits->max) {
		uint64_t scales =
			tile_count(unit->cols, spec->tile.cols) * scale_size(spec->scale_type);

		/* The scales of a narrow matrix may be larger than the weights.  A plan has no
		 * bands of an empty matrix. */
		/* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
		fit = smaller(n / unit->cols, limits->target / (32 * scales)) / step;
		*n_rows = (fit ? fit : 1) * step;
		*n_cols = unit->cols;
		return;
	}
	*n_rows = step;
	*n_cols = n / step / COLUMN_STEP * COLUMN_STEP;
	if (*n_cols == 0)
		*n_cols = COLUMN_STEP;
}

static void band_add(struct band_list *list, struct band band)
{
	ARRAY_GROW(list->bands, list->n_bands);
	list->bands[list->n_bands++] = band;
}

void bands_add_unit(struct band_list *list, const struct plan *plan, size_t u,
		    const struct band_limits *limits, size_t output)
{
	const struct unit *unit = &plan->selection.units[u];
	uint64_t n_rows, n_cols;
	struct rect rect = { 0 };

	if (!unit->rows || !unit->cols)
		return;
	band_shape(unit, plan->units[u].spec, limits, &n_rows, &n_cols);
	while (rect_next(unit, n_rows, n_cols, &rect))
		band_add(list, (struct band){ u, output, rect });
}

/* Adds bands of n elements of `size` bytes without rows. */
static void bands_add_flat(struct band_list *list, size_t unit, uint64_t n, uint64_t size,
			   const struct band_limits *limits, size_t output)
{
	uint64_t max = limits->target / size;

	for (uint64_t at = 0; at < n; at += max) {
		struct rect rect = { .col = at,
				     .n_rows = 1,
				     .n_cols = n - at < max ? n - at : max };

		band_add(list, (struct band){ unit, output, rect });
	}
}

uint64_t output_element_size(const struct output_shard *shard, size_t output)
{
	return shard->outputs[output].kind == OUTPUT_COPY
		       ? 1
		       : dtype_bits(shard->tensors[output].dtype) / 8;
}

static void bands_add_output(struct band_list *list, const struct plan *plan,
			     const struct output_shard *shard, const struct band_limits *limits,
			     size_t o)
{
	const struct output *output = &shard->outputs[o];
	const struct st_tensor *tensor = &shard->tensors[o];

	switch (output->kind) {
	case OUTPUT_COPY:
		bands_add_flat(list, output->unit, st_tensor_size(tensor), 1, limits, o);
		break;
	case OUTPUT_PART:
	case OUTPUT_VALUE:
	case OUTPUT_RESCALED: /* these three: converted as at most fp32 */
		bands_add_flat(list, output->unit, st_n_elements(tensor->shape, tensor->n_dims),
			       sizeof(float), limits, o);
		break;
	case OUTPUT_CODES:
	case OUTPUT_VALUES:
		bands_add_unit(list, plan, output->unit, limits, o);
		break;
	case OUTPUT_SCALE:
		break;
	}
}

uint64_t output_source_bytes(const struct output_shard *shard, size_t output, uint64_t bytes)
{
	const struct output *from = &shard->outputs[output];

	switch (from->kind) {
	case OUTPUT_COPY:
	case OUTPUT_PART:
		return bytes;
	case OUTPUT_CODES:
		return bytes * dtype_bits(from->source->tensor->dtype) / 8;
	case OUTPUT_VALUES:
		return bytes / output_element_size(shard, output) *
		       dtype_bits(from->source->tensor->dtype) / 8;
	default:
		return 0;
	}
}

/* Adds the extent of one band: to the last extent, if both are contiguous and have at most max
 * bytes. */
static void extents_add(struct band_list *list, const struct extent *extent, uint64_t max)
{
	struct extent *last = list->n_extents ? &list->extents[list->n_extents - 1] : NULL;

	if (last && !extent->scattered && !last->scattered && last->end == extent->begin &&
	    extent->end - last->begin <= max) {
		last->n_bands++;
		last->end = extent->end;
		last->input_bytes += extent->input_bytes;
		return;
	}
	ARRAY_GROW(list->extents, list->n_extents);
	/* Clang-tidy believes that n_extents may be above 0 without extents. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	list->extents[list->n_extents++] = *extent;
}

struct ordered {
	uint64_t begin;
	size_t output;
};

void bands_cut_shard(struct band_list *list, const struct plan *plan, size_t shard,
		     const struct output_set *set, const struct band_limits *limits, bool direct)
{
	uint64_t max = direct ? limits->extent_direct : limits->extent;
	const struct output_shard *out = &plan->shards[shard];
	size_t n_set = set->list ? set->n : out->n_tensors, n = 0;
	struct ordered *order = xcalloc(n_set, sizeof *order);

	for (size_t s = 0; s < n_set; s++) {
		size_t i = set->list ? set->list[s] : s;

		if (out->outputs[i].kind != OUTPUT_SCALE) /* written with its codes */
			order[n++] = (struct ordered){ out->tensors[i].begin, i };
	}
	qsort(order, n, sizeof *order, compare_u64);
	for (size_t i = 0; i < n; i++) {
		const struct output *output = &out->outputs[order[i].output];
		const struct unit *unit = &plan->selection.units[output->unit];
		bool flat = output->kind != OUTPUT_CODES && output->kind != OUTPUT_VALUES;
		uint64_t size = output_element_size(out, order[i].output);
		size_t first = list->n_bands;

		bands_add_output(list, plan, out, limits, order[i].output);
		for (size_t b = first; b < list->n_bands; b++) {
			const struct rect *rect = &list->bands[b].rect;
			uint64_t cols = flat ? rect->n_cols : unit->cols;
			uint64_t bytes = rect->n_rows * rect->n_cols * size;
			struct extent extent = {
				.first_band = b,
				.n_bands = 1,
				.begin = order[i].begin + (rect->row * cols + rect->col) * size,
				.input_bytes = output_source_bytes(out, order[i].output, bytes),
				.scattered = rect->n_cols != cols,
			};

			extent.end = extent.begin + bytes;
			extents_add(list, &extent, max);
		}
	}
	free(order);
}

void band_list_release(struct band_list *list)
{
	free(list->bands);
	free(list->extents);
	*list = (struct band_list){ 0 };
}
