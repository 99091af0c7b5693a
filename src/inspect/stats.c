/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected quantization noise, from the codes alone.  A code c stands for the values between the
 * middles to its neighbors: d below it, u above.  If values are spread evenly there, the mean of
 * the squared error is
 *
 *	(integral of e^2 from -d to u) / (d + u) = (u^3 + d^3) / (3 (u + d)),
 *
 * which is step^2 / 12 within a binade, where u = d = step / 2, and step^2 / 16 for a power of two,
 * whose step below is half of that above.  The largest code has nothing above it and takes d for
 * both.  The signal is c^2, and both are times the square of the tile's scale_inv.  A tile of zeros
 * alone is exact.
 */
#include "inspect/stats.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "num/fp8.h"
#include "num/scale_grid.h"
#include "select/fp8_units.h"
#include "source/cut.h"
#include "source/unpack.h"

#define CUT_BYTES ((uint64_t)512 << 10) /* of a buffer */

static void count_scale(struct code_counts *counts, float factor)
{
	if (isfinite(factor) && factor > 0)
		counts->scales[ilogbf(factor) - SCALE_EXPONENT_MIN]++;
	else
		counts->n_other_scales++;
}

/* Counts the elements of a scale tensor, as factors also where they divide. */
static int count_scales(struct code_counts *counts, struct source *files,
			const struct weight_scale *scale, void *buffer, struct err *err)
{
	const struct st_tensor *tensor = scale->scale->tensor;
	uint64_t n = st_n_elements(tensor->shape, tensor->n_dims);
	const uint64_t step = CUT_BYTES / sizeof(float);
	float *values = buffer;

	for (uint64_t first = 0; first < n; first += step) {
		struct floats_request request = { .ref = scale->scale,
						  .inverted = scale->inverted,
						  .first = first,
						  .n = (size_t)(n - first < step ? n - first
										 : step) };

		if (source_read_floats(files, &request, values, err))
			return -1;
		for (size_t i = 0; i < request.n; i++)
			count_scale(counts, values[i]);
	}
	return 0;
}

static void add_counts(struct code_counts *into, const struct code_counts *from)
{
	for (int code = 0; code < 256; code++)
		into->codes[code] += from->codes[code];
	for (int i = 0; i < N_SCALE_EXPONENTS; i++)
		into->scales[i] += from->scales[i];
	into->n_other_scales += from->n_other_scales;
}

#define LOW_BIT_BYTES ((uint64_t)2 * sizeof(float)) /* of a code: its value, and what is read */

/* The expected contribution of a code to signal and noise with scale_inv 1; 0 for codes that are
 * not finite. */
struct code_table {
	float signal[256], noise[256];
};

struct stats_job {
	struct inspection *inspection;
	const struct stats_params *params;
	struct source files;
	struct code_table tables[2]; /* by enum fp8_format */
	struct unit *units;	     /* by tensor; of FP8 and low-bit weights */
	struct cuts cuts;	     /* of tensors; one row for tensors in high precision */
	void **buffers;		     /* by worker */
	struct tensor_stats *stats;  /* by tensor */
	pthread_mutex_t lock;	     /* of stats and counts */
};

/* What one cut shows. */
struct findings {
	struct tensor_stats stats;
	uint64_t codes[256]; /* of an FP8 weight: how often each occurs */
};

static void table_make(struct code_table *table, enum fp8_format format)
{
	*table = (struct code_table){ .signal = { 0 } };
	for (int code = 0; code < 256; code++) {
		uint8_t magnitude = (uint8_t)(code & 0x7F), largest = fp8_max_code(format);
		float value, above, below;

		if (magnitude > largest)
			continue;
		value = fp8_to_f32(format, magnitude);
		above = magnitude < largest
				? (fp8_to_f32(format, (uint8_t)(magnitude + 1)) - value) / 2
				: 0;
		below = magnitude ? (value - fp8_to_f32(format, (uint8_t)(magnitude - 1))) / 2
				  : above;
		above = above > 0 ? above : below;
		table->signal[code] = value * value;
		table->noise[code] =
			(above * above * above + below * below * below) / (3 * (above + below));
	}
}

/* --- the cuts --- */

static void add_flat(struct cuts *cuts, size_t t, uint64_t n, uint64_t max)
{
	for (uint64_t at = 0; at < n; at += max) {
		ARRAY_GROW(cuts->list, cuts->n);
		cuts->list[cuts->n++] = (struct cut){
			t, { .col = at, .n_rows = 1, .n_cols = n - at < max ? n - at : max }
		};
	}
}

/* Lists the cuts of a weight with so many bytes of memory for each code. */
static void add_weight(struct stats_job *job, size_t t, uint64_t size, uint64_t *max)
{
	struct unit *unit = &job->units[t];

	fp8_unit_layout(unit);
	job->stats[t].known = true;
	cut_unit(&job->cuts, unit, t, CUT_BYTES / size);
	if (unit->rows && unit->cols && cut_max_codes(unit, CUT_BYTES / size) * size > *max)
		*max = cut_max_codes(unit, CUT_BYTES / size) * size;
}

/* Lists the cuts of all tensors that can be read; *max becomes the bytes of the largest cut. */
static void list_cuts(struct stats_job *job, uint64_t *max)
{
	const struct checkpoint *checkpoint = &job->inspection->checkpoint;
	struct err ignored;

	*max = CUT_BYTES;
	for (size_t t = 0; t < checkpoint->n_tensors; t++) {
		const struct tensor_ref *ref = &checkpoint->tensors[t];
		const struct st_tensor *tensor = ref->tensor;
		struct unit *unit = &job->units[t];

		const struct low_bit_weight *weight = low_bit_of(&job->inspection->low_bit, t);

		if (low_bit_is_part(&job->inspection->low_bit, t))
			continue;
		if (weight) {
			*unit = (struct unit){ .source = &weight->ref,
					       .name = weight->tensor.name,
					       .low_bit = weight };
			add_weight(job, t, LOW_BIT_BYTES, max);
		} else if (dtype_is_float(tensor->dtype)) {
			job->stats[t].known = true;
			add_flat(&job->cuts, t, st_n_elements(tensor->shape, tensor->n_dims),
				 CUT_BYTES / 4);
		} else if (detection_is_weight(ref) &&
			   !detection_scale(&job->inspection->detection, ref, &unit->source_scale,
					    &ignored)) {
			*unit = (struct unit){ .source = ref,
					       .name = tensor->name,
					       .source_scale = unit->source_scale };
			add_weight(job, t, 1, max);
			job->stats[t].fp8 = true;
		}
	}
}

static uint64_t cut_size(const struct stats_job *job, const struct cut *cut)
{
	const struct tensor_ref *ref = &job->inspection->checkpoint.tensors[cut->weight];

	if (job->units[cut->weight].low_bit)
		return cut->rect.n_rows * cut->rect.n_cols / 2;
	return cut->rect.n_rows * cut->rect.n_cols * dtype_bits(ref->tensor->dtype) / 8;
}

static uint64_t cuts_size(const struct stats_job *job)
{
	uint64_t size = 0;

	for (size_t i = 0; i < job->cuts.n; i++)
		size += cut_size(job, &job->cuts.list[i]);
	return size;
}

/* --- one cut --- */

static int look_at_values(struct stats_job *job, const struct cut *cut, void *buffer,
			  struct findings *found, struct err *err)
{
	const struct tensor_ref *ref = &job->inspection->checkpoint.tensors[cut->weight];
	size_t size = dtype_bits(ref->tensor->dtype) / 8, n = (size_t)cut->rect.n_cols;
	struct matrix x = { buffer, ref->tensor->dtype, 1, n, n };

	if (source_read_bytes(&job->files, ref, cut->rect.col * size, n * size, buffer, err))
		return -1;
	backend_amax(job->params->backend, &x, (struct tile){ WHOLE, WHOLE }, &found->stats.amax, 1,
		     &found->stats.n_nonfinite);
	return backend_failed(job->params->backend, ref->tensor->name, err);
}

static int look_at_low_bit(struct stats_job *job, const struct cut *cut, void *buffer,
			   struct findings *found, struct err *err)
{
	const struct unit *unit = &job->units[cut->weight];
	uint64_t size = cut->rect.n_rows * cut->rect.n_cols * sizeof(float);
	struct source_request request = { .unit = unit,
					  .rect = cut->rect,
					  .buffers = { buffer, (char *)buffer + size, size } };
	struct matrix x;

	if (source_read(&job->files, &request, &x, err))
		return -1;
	backend_amax(job->params->backend, &x, (struct tile){ WHOLE, WHOLE }, &found->stats.amax, 1,
		     &found->stats.n_nonfinite);
	return backend_failed(job->params->backend, unit->name, err);
}

/* The codes of one tile, or of its part in the cut, in rows stride apart. */
struct codes {
	const uint8_t *at;
	uint64_t n_rows, n_cols, stride;
	enum fp8_format format;
};

static void add_tile(const struct code_table *table, const struct codes *codes, float scale,
		     struct findings *found)
{
	struct tensor_stats *stats = &found->stats;
	uint8_t largest = fp8_max_code(codes->format), max = 0;
	double signal = 0, noise = 0;

	for (uint64_t row = 0; row < codes->n_rows; row++) {
		for (uint64_t col = 0; col < codes->n_cols; col++) {
			uint8_t code = codes->at[row * codes->stride + col],
				magnitude = code & 0x7F;

			signal += table->signal[code];
			noise += table->noise[code];
			found->codes[code]++;
			if (magnitude <= largest && magnitude > max)
				max = magnitude;
		}
	}
	if (!isfinite(scale))
		return;
	stats->amax = fmaxf(stats->amax, fp8_to_f32(codes->format, max) * fabsf(scale));
	if (!(stats->scale_max > 0) || scale > stats->scale_max)
		stats->scale_max = scale;
	if (!(stats->scale_min > 0) || scale < stats->scale_min)
		stats->scale_min = scale;
	if (signal > 0) {
		stats->signal += signal * scale * scale;
		stats->noise += noise * scale * scale;
	}
}

/* Sums up what the codes of a cut are. */
static void add_codes(struct findings *found, enum fp8_format format)
{
	for (int code = 0; code < 256; code++) {
		uint8_t magnitude = (uint8_t)(code & 0x7F), largest = fp8_max_code(format);
		uint64_t n = found->codes[code];

		found->stats.n_codes += n;
		found->stats.n_zeros += magnitude == 0 ? n : 0;
		found->stats.n_saturated += magnitude == largest ? n : 0;
		found->stats.n_nonfinite += magnitude > largest ? n : 0;
	}
}

static void add_tiles(const struct stats_job *job, const struct cut *cut, const uint8_t *buffer,
		      const void *scales, struct findings *found)
{
	const struct unit *unit = &job->units[cut->weight];
	const struct rect *rect = &cut->rect;
	struct tile tile = unit->source_scale.tile;
	uint64_t rows = tile.rows == WHOLE ? rect->n_rows : tile.rows;
	uint64_t cols = tile.cols == WHOLE ? rect->n_cols : tile.cols;
	uint64_t grid_cols = tile_count(unit->cols, tile.cols);
	uint64_t first = tile.cols == WHOLE ? 0 : rect->col / tile.cols;
	struct codes codes = { .stride = rect->n_cols };

	codes.format = fp8_of_dtype(unit->source->tensor->dtype);
	for (uint64_t row = 0; row < rect->n_rows; row += rows) {
		for (uint64_t col = 0; col < rect->n_cols; col += cols) {
			codes.at = buffer + row * rect->n_cols + col;
			codes.n_rows = rect->n_rows - row < rows ? rect->n_rows - row : rows;
			codes.n_cols = rect->n_cols - col < cols ? rect->n_cols - col : cols;
			add_tile(&job->tables[codes.format], &codes,
				 scale_grid_at(scales, unit->source_scale.scale_type,
					       row / rows * grid_cols + first + col / cols),
				 found);
		}
	}
}

static int look_at_codes(struct stats_job *job, const struct cut *cut, void *buffer,
			 struct findings *found, struct err *err)
{
	const struct unit *unit = &job->units[cut->weight];
	const struct rect *rect = &cut->rect;
	void *scales;

	if (source_codes(&job->files, unit, rect, buffer, err) ||
	    source_scales(&job->files, unit, rect, &scales, err))
		return -1;
	add_tiles(job, cut, buffer, scales, found);
	add_codes(found, fp8_of_dtype(unit->source->tensor->dtype));
	free(scales);
	return 0;
}

void tensor_stats_add(struct tensor_stats *into, const struct tensor_stats *from)
{
	into->amax = fmaxf(into->amax, from->amax);
	into->n_nonfinite += from->n_nonfinite;
	if (from->scale_min > 0 && (!(into->scale_min > 0) || from->scale_min < into->scale_min))
		into->scale_min = from->scale_min;
	into->scale_max = fmaxf(into->scale_max, from->scale_max);
	into->n_codes += from->n_codes;
	into->n_saturated += from->n_saturated;
	into->n_zeros += from->n_zeros;
	into->signal += from->signal;
	into->noise += from->noise;
}

static int look(void *context, int worker, size_t item, struct err *err)
{
	struct stats_job *job = context;
	const struct cut *cut = &job->cuts.list[item];
	struct tensor_stats *stats = &job->stats[cut->weight];
	struct findings found = { .stats.known = true };
	const struct checkpoint *checkpoint = &job->inspection->checkpoint;
	struct code_counts *counts = job->params->counts ? job->params->counts[cut->weight] : NULL;

	atomic_store(&job->params->progress->name,
		     checkpoint->shards[checkpoint->tensors[cut->weight].shard].name);
	if ((stats->fp8 ? look_at_codes
	     : job->units[cut->weight].low_bit
		     ? look_at_low_bit
		     : look_at_values)(job, cut, job->buffers[worker], &found, err))
		return -1;
	pthread_mutex_lock(&job->lock);
	tensor_stats_add(stats, &found.stats);
	for (int code = 0; counts && code < 256; code++)
		counts->codes[code] += found.codes[code];
	pthread_mutex_unlock(&job->lock);
	atomic_fetch_add(&job->params->progress->done, cut_size(job, cut));
	return 0;
}

/* --- all cuts --- */

static int buffers_new(struct stats_job *job, int n_threads, uint64_t size, struct err *err)
{
	job->buffers = xcalloc((size_t)n_threads, sizeof *job->buffers);
	for (int i = 0; i < n_threads; i++)
		if (buffer_alloc(&job->buffers[i], size, "a worker's buffer", err))
			return -1;
	return 0;
}

/* Counts the scales of one FP8 weight. */
static int look_at_scales(void *context, int worker, size_t t, struct err *err)
{
	struct stats_job *job = context;
	const struct weight_scale *scale = &job->units[t].source_scale;
	struct code_counts *counts = job->params->counts[t], found = { .codes = { 0 } };

	if (!counts || !scale->scale)
		return 0;
	if (count_scales(&found, &job->files, scale, job->buffers[worker], err))
		return -1;
	pthread_mutex_lock(&job->lock);
	add_counts(counts, &found);
	pthread_mutex_unlock(&job->lock);
	return 0;
}

static int look_at_all(struct stats_job *job, struct err *err)
{
	const struct stats_params *params = job->params;
	const atomic_int *stop = params->progress->stop;

	if (pool_run(params->n_threads, job->cuts.n, look, job, stop, err))
		return -1;
	if (!params->counts)
		return 0;
	return pool_run(params->n_threads, job->inspection->checkpoint.n_tensors, look_at_scales,
			job, stop, err);
}

int inspect_stats(struct inspection *inspection, const struct stats_params *params,
		  struct tensor_stats **stats, struct err *err)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	struct stats_job job = { .inspection = inspection,
				 .params = params,
				 .lock = PTHREAD_MUTEX_INITIALIZER };
	uint64_t max;
	int rc = -1;

	*stats = job.stats = xcalloc(checkpoint->n_tensors, sizeof *job.stats);
	job.units = xcalloc(checkpoint->n_tensors, sizeof *job.units);
	source_init(&job.files, checkpoint->io, checkpoint, params->backend, inspection->stream_fd);
	for (int format = 0; format < 2; format++)
		table_make(&job.tables[format], (enum fp8_format)format);
	list_cuts(&job, &max);
	progress_begin(params->progress, PROGRESS_WORK, cuts_size(&job));
	if (!buffers_new(&job, params->n_threads, max, err) &&
	    !unpack_check_shapes(&job.files, &inspection->low_bit, err) && !look_at_all(&job, err))
		rc = source_close(&job.files, 0, err);
	source_release(&job.files);
	for (int i = 0; job.buffers && i < params->n_threads; i++)
		free(job.buffers[i]);
	free(job.buffers);
	free(job.cuts.list);
	free(job.units);
	return rc;
}

double tensor_stats_sqnr(const struct tensor_stats *stats)
{
	return stats->noise > 0 ? 10 * log10(stats->signal / stats->noise) : NAN;
}
