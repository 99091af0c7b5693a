/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor is cut into items, each the work of one thread, and an item into pieces, which fit a
 * cache.  Neither depends on the number of threads, and sums are added in the order of items.
 */
#include "diff/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "base/pool.h"
#include "select/fp8_units.h"
#include "source/cut.h"

#define ITEM_ELEMENTS  ((uint64_t)16 << 20)
#define PIECE_ELEMENTS ((uint64_t)256 << 10)
#define LANES	       8
#define TILE	       128 /* rows and columns of a piece that is a part of whole tiles */

/* Bytes of one array of a piece: of values, or of elements of the widest type. */
#define ARRAY_SIZE (PIECE_ELEMENTS * 8)

/* The memory of a worker for one side. */
struct arrays {
	void *matrix, *raw;
	float *values;
};

struct diff_item {
	size_t tensor;
	struct rect rect;
	struct diff_counts found;
};

struct diff_job {
	struct difference *difference;
	struct progress *progress;
	size_t n_items;
	struct diff_item *items;
	struct arrays (*arrays)[2]; /* by worker */
};

/* --- elements and values --- */

/* Returns the largest magnitude, as bits, of a number of the type; 0: not a floating-point type. */
static uint64_t max_magnitude(enum dtype dtype)
{
	switch (dtype) {
	case DT_F32:
		return 0x7f800000;
	case DT_BF16:
		return 0x7f80;
	case DT_F16:
		return 0x7c00;
	case DT_F8_E5M2:
		return 0x7c;
	case DT_F8_E4M3:
		return 0x7e;
	default:
		return 0;
	}
}

static inline uint64_t element_at(const void *data, size_t size, size_t i)
{
	switch (size) {
	case 1:
		return ((const uint8_t *)data)[i];
	case 2:
		return ((const uint16_t *)data)[i];
	case 4:
		return ((const uint32_t *)data)[i];
	default:
		return ((const uint64_t *)data)[i];
	}
}

/* Counts elements of one type that differ, and the steps between them. */
static void compare_elements(const void *a, const void *b, size_t n, enum dtype dtype,
			     struct diff_counts *found)
{
	size_t size = diff_element_size(dtype);
	uint64_t max = max_magnitude(dtype), sign = UINT64_C(1) << (8 * size - 1);

	if (!memcmp(a, b, n * size))
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t x = element_at(a, size, i), y = element_at(b, size, i);
		uint64_t x_size = x & ~sign, y_size = y & ~sign, ulp;

		if (x == y)
			continue;
		found->n_codes++;
		if (x_size > max || y_size > max)
			continue;
		ulp = (x ^ y) & sign	? x_size + y_size
		      : x_size > y_size ? x_size - y_size
					: y_size - x_size;
		found->max_ulp = ulp > found->max_ulp ? ulp : found->max_ulp;
	}
}

/* Adds values of which some are not finite. */
static void add_nonfinite(const float *a, const float *b, size_t n, struct diff_counts *found)
{
	for (size_t i = 0; i < n; i++) {
		double error = (double)a[i] - b[i];

		found->n_nan[0] += isnan(a[i]) != 0;
		found->n_nan[1] += isnan(b[i]) != 0;
		found->n_inf[0] += isinf(a[i]) != 0;
		found->n_inf[1] += isinf(b[i]) != 0;
		if (!isfinite(error))
			continue;
		found->signal += (double)a[i] * a[i];
		found->noise += error * error;
		found->max_error = fmax(found->max_error, fabs(error));
	}
}

/* Adds values in lanes.  A square of fp32 is finite in fp64, so that the sums show whether all
 * values are. */
static void compare_values(const float *a, const float *b, size_t n, struct diff_counts *found)
{
	double signal[LANES] = { 0 }, noise[LANES] = { 0 }, most[LANES] = { 0 }, sum = 0;
	size_t whole = n / LANES * LANES;

	found->n_values += values_changed(a, b, n);
	for (size_t i = 0; i < whole; i += LANES) {
		for (size_t lane = 0; lane < LANES; lane++) {
			double x = a[i + lane], error = fabs(x - b[i + lane]);

			signal[lane] += x * x;
			noise[lane] += error * error;
			most[lane] = error > most[lane] ? error : most[lane];
		}
	}
	for (size_t lane = 0; lane < LANES; lane++)
		sum += signal[lane] + noise[lane];
	if (!isfinite(sum))
		whole = 0;
	for (size_t lane = 0; lane < LANES && whole; lane++) {
		found->signal += signal[lane];
		found->noise += noise[lane];
		found->max_error = fmax(found->max_error, most[lane]);
	}
	add_nonfinite(a + whole, b + whole, n - whole, found);
}

/* --- an item --- */

/* Reads a piece of one side to `elements`, where a comparison as it is needs them, and to
 * arrays->values. */
static int read_values(struct diff_side *side, const struct unit *unit, const struct rect *rect,
		       struct arrays *arrays, const void **elements, struct err *err)
{
	struct source_request request = { .unit = unit,
					  .rect = *rect,
					  .buffers = { arrays->matrix, arrays->raw, ARRAY_SIZE } };
	struct matrix x;

	if (unit_is_coded(unit)) {
		*elements = arrays->raw;
		return source_decode(&side->files, &request, DT_F32, arrays->values, err);
	}
	if (source_read(&side->files, &request, &x, err))
		return -1;
	for (size_t row = 0; row < x.rows; row++)
		matrix_row(&x, row, arrays->values + row * x.cols);
	*elements = arrays->matrix;
	return 0;
}

static int compare_piece(struct diff_job *job, const struct diff_tensor *tensor,
			 const struct rect *rect, struct arrays arrays[2],
			 struct diff_counts *found, struct err *err)
{
	size_t n = (size_t)(rect->n_rows * rect->n_cols), size;
	const void *elements[2];

	for (int s = 0; s < 2; s++) {
		struct diff_side *side = &job->difference->sides[s];
		const struct unit *unit = tensor->units[s];

		size = diff_element_size(diff_type(unit));
		elements[s] = arrays[s].matrix;
		if (tensor->has_values
			    ? read_values(side, unit, rect, &arrays[s], &elements[s], err)
			    : source_read_bytes(&side->files, unit->source, rect->col * size,
						n * size, arrays[s].matrix, err))
			return -1;
	}
	if (tensor->has_codes && !tensor->units[0]->low_bit)
		compare_elements(elements[0], elements[1], n, diff_type(tensor->units[0]), found);
	if (tensor->has_values)
		compare_values(arrays[0].values, arrays[1].values, n, found);
	return backend_failed(job->difference->sides[0].files.backend, tensor->name, err);
}

/* Returns whether pieces begin at rows of tiles. */
static bool has_tall_tiles(const struct unit *unit)
{
	return unit->source_scale.scale && unit->source_scale.tile.rows > 1 &&
	       unit->source_scale.tile.rows != WHOLE;
}

/* Returns the bytes of both sides. */
static uint64_t rect_bytes(const struct diff_tensor *tensor, const struct rect *rect)
{
	return rect->n_rows * rect->n_cols *
	       (dtype_bits(diff_type(tensor->units[0])) + dtype_bits(diff_type(tensor->units[1]))) /
	       8;
}

static int compare_item(void *context, int worker, size_t i, struct err *err)
{
	struct diff_job *job = context;
	struct diff_item *item = &job->items[i];
	const struct diff_tensor *tensor = &job->difference->tensors[item->tensor];
	const struct unit area = { .rows = item->rect.n_rows, .cols = item->rect.n_cols };
	uint64_t step =
		has_tall_tiles(tensor->units[0]) || has_tall_tiles(tensor->units[1]) ? TILE : 1;
	uint64_t n_cols = PIECE_ELEMENTS / step / TILE * TILE;
	struct rect rect = { 0 };

	n_cols = area.cols < n_cols ? area.cols : n_cols;
	while (rect_next(&area, PIECE_ELEMENTS / n_cols / step * step, n_cols, &rect)) {
		struct rect piece = rect;

		piece.row += item->rect.row;
		piece.col += item->rect.col;
		if (progress_stopped(job->progress->stop, err) ||
		    compare_piece(job, tensor, &piece, job->arrays[worker], &item->found, err))
			return -1;
		atomic_fetch_add(&job->progress->done, rect_bytes(tensor, &rect));
	}
	return 0;
}

/* --- scales and packed codes --- */

/* Returns the number of scales of a unit, a whole tensor or one matrix of it. */
static uint64_t count_scales(const struct unit *unit)
{
	const struct weight_scale *scale = &unit->source_scale;

	if (!unit_is_cut(unit))
		return st_n_elements(scale->scale->tensor->shape, scale->scale->tensor->n_dims);
	return tile_count(unit->rows, scale->tile.rows) * tile_count(unit->cols, scale->tile.cols);
}

/* Have both units scales for the same tiles? */
static bool has_same_scales(const struct unit *a, const struct unit *b)
{
	const struct weight_scale *x = &a->source_scale, *y = &b->source_scale;

	return x->scale && y->scale && !a->low_bit == !b->low_bit &&
	       !memcmp(&x->tile, &y->tile, sizeof x->tile) && count_scales(a) == count_scales(b);
}

/* Compares n scales from `at` on as factors of the codes.  Those in a type of 8 bits are told apart
 * as E8M0, whatever they are. */
static int compare_scales(struct diff_job *job, struct diff_tensor *tensor, struct arrays arrays[2],
			  uint64_t at, struct err *err)
{
	uint64_t n =
		tensor->n_scales - at < PIECE_ELEMENTS ? tensor->n_scales - at : PIECE_ELEMENTS;

	for (int s = 0; s < 2; s++) {
		const struct unit *unit = tensor->units[s];
		const struct floats_request request = {
			.ref = unit->source_scale.scale,
			.inverted = unit->source_scale.inverted,
			.first = at + (unit_is_cut(unit) ? source_first_scale(unit, 0) : 0),
			.n = (size_t)n,
		};

		if (source_read_floats(&job->difference->sides[s].files, &request, arrays[s].values,
				       err))
			return -1;
	}
	tensor->scales_off += values_changed(arrays[0].values, arrays[1].values, (size_t)n);
	return 0;
}

/* Counts the codes that differ in n bytes of two packed tensors from `at` on. */
static int compare_packed(struct diff_job *job, struct diff_tensor *tensor, struct arrays arrays[2],
			  uint64_t at, struct err *err)
{
	const uint8_t *a = arrays[0].matrix, *b = arrays[1].matrix;
	uint64_t n = st_tensor_size(tensor->units[0]->low_bit->packed->tensor) - at;

	n = n < ARRAY_SIZE ? n : ARRAY_SIZE;
	for (int s = 0; s < 2; s++)
		if (source_read_bytes(&job->difference->sides[s].files,
				      tensor->units[s]->low_bit->packed, at, (size_t)n,
				      arrays[s].matrix, err))
			return -1;
	for (size_t i = 0; i < n; i++)
		tensor->found.n_codes +=
			((a[i] ^ b[i]) & 0x0f ? 1U : 0U) + ((a[i] ^ b[i]) >> 4 ? 1U : 0U);
	return 0;
}

static int compare_beside(void *context, int worker, size_t i, struct err *err)
{
	struct diff_job *job = context;
	struct diff_tensor *tensor = &job->difference->tensors[i];
	struct unit **units = tensor->units;
	uint64_t n_bytes = 0;

	if (tensor->kind != DIFF_NONE)
		return 0;
	if (has_same_scales(units[0], units[1]))
		tensor->n_scales = count_scales(units[0]);
	if (tensor->has_codes && units[0]->low_bit)
		n_bytes = st_tensor_size(units[0]->low_bit->packed->tensor);
	for (uint64_t at = 0; at < tensor->n_scales; at += PIECE_ELEMENTS)
		if (compare_scales(job, tensor, job->arrays[worker], at, err))
			return -1;
	for (uint64_t at = 0; at < n_bytes; at += ARRAY_SIZE)
		if (compare_packed(job, tensor, job->arrays[worker], at, err))
			return -1;
	return 0;
}

/* --- all tensors --- */

static void add_items(struct diff_job *job, size_t t)
{
	const struct diff_tensor *tensor = &job->difference->tensors[t];
	const struct unit *unit = tensor->units[0];
	uint64_t n_rows, n_cols;
	struct rect rect = { 0 };

	if (tensor->kind != DIFF_NONE || !tensor->n_elements)
		return;
	n_cols = unit->rows > 1 || unit->cols < ITEM_ELEMENTS ? unit->cols : ITEM_ELEMENTS;
	n_rows = ITEM_ELEMENTS / n_cols / TILE * TILE;
	while (rect_next(unit, n_rows ? n_rows : TILE, n_cols, &rect)) {
		ARRAY_GROW(job->items, job->n_items);
		job->items[job->n_items++] = (struct diff_item){ .tensor = t, .rect = rect };
	}
}

static void add_found(struct diff_counts *into, const struct diff_counts *from)
{
	into->n_codes += from->n_codes;
	into->max_ulp = from->max_ulp > into->max_ulp ? from->max_ulp : into->max_ulp;
	into->n_values += from->n_values;
	into->signal += from->signal;
	into->noise += from->noise;
	into->max_error = fmax(into->max_error, from->max_error);
	for (int s = 0; s < 2; s++) {
		into->n_nan[s] += from->n_nan[s];
		into->n_inf[s] += from->n_inf[s];
	}
}

/* Do the files say the same values in different ways? */
static bool is_stored_otherwise(const struct diff_tensor *tensor)
{
	const struct unit *a = tensor->units[0], *b = tensor->units[1];
	const struct tensor_ref *x = a->source_scale.scale, *y = b->source_scale.scale;

	return diff_type(a) != diff_type(b) || tensor->found.n_codes || tensor->scales_off ||
	       strcmp(a->source->tensor->name, b->source->tensor->name) != 0 || !x != !y ||
	       (x && (x->tensor->dtype != y->tensor->dtype ||
		      strcmp(x->tensor->name, y->tensor->name) != 0 || !has_same_scales(a, b)));
}

static void settle(struct diff_tensor *tensor)
{
	if (tensor->kind != DIFF_NONE)
		return;
	if (tensor->has_values ? tensor->found.n_values : tensor->found.n_codes)
		tensor->kind = DIFF_VALUES;
	else if (is_stored_otherwise(tensor))
		tensor->kind = DIFF_STORED;
}

static int compare_all(struct diff_job *job, int n_threads, struct err *err)
{
	struct difference *difference = job->difference;
	const atomic_int *stop = job->progress->stop;

	if (pool_run(n_threads, difference->n_tensors, compare_beside, job, stop, err) ||
	    pool_run(n_threads, job->n_items, compare_item, job, stop, err))
		return -1;
	for (size_t i = 0; i < job->n_items; i++)
		add_found(&difference->tensors[job->items[i].tensor].found, &job->items[i].found);
	for (size_t i = 0; i < difference->n_tensors; i++)
		settle(&difference->tensors[i]);
	return 0;
}

/* Allocates each worker's arrays in one piece. */
static int arrays_new(struct diff_job *job, int n_threads, void **memory, struct err *err)
{
	char *at;

	if (buffer_alloc(memory, (uint64_t)n_threads * 6 * ARRAY_SIZE, "the workers' buffers", err))
		return -1;
	at = *memory;
	job->arrays = xcalloc((size_t)n_threads, sizeof *job->arrays);
	for (int i = 0; i < 2 * n_threads; i++, at += 3 * ARRAY_SIZE)
		job->arrays[i / 2][i % 2] =
			(struct arrays){ at, at + ARRAY_SIZE, (void *)(at + 2 * ARRAY_SIZE) };
	return 0;
}

int diff_values(struct difference *difference, const struct diff_params *params,
		struct progress *progress, struct err *err)
{
	struct diff_job job = { .difference = difference, .progress = progress };
	uint64_t most = params->max_memory / (6 * ARRAY_SIZE), n_bytes = 0;
	int n_threads = params->n_threads, rc = -1;
	void *memory = NULL;

	if (params->max_memory && most < (uint64_t)n_threads)
		n_threads = most ? (int)most : 1;
	for (size_t i = 0; i < difference->n_tensors; i++)
		add_items(&job, i);
	for (size_t i = 0; i < job.n_items; i++)
		n_bytes +=
			rect_bytes(&difference->tensors[job.items[i].tensor], &job.items[i].rect);
	progress_begin(progress, PROGRESS_WORK, n_bytes);
	if (!arrays_new(&job, n_threads, &memory, err))
		rc = compare_all(&job, n_threads, err);
	free(memory);
	free(job.arrays);
	free(job.items);
	return rc;
}
