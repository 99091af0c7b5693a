/* SPDX-License-Identifier: Apache-2.0
 *
 * The data: windows of runs, each run a few bands that are read, quantized while they are in the cache, and written at
 * once.  Where a tile is larger than a band, the amax of a window's units is taken first; the second look then comes from
 * the page cache.  No byte depends on the order in which workers come by.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "job/quantize_internal.h"
#include "num/float16.h"

/* Source bytes between two looks: well inside the page cache of any machine that runs this. */
#define WINDOW_BYTES ((uint64_t)512 << 20)

/* The program itself, its libraries and stacks. */
#define BASE_MEMORY ((uint64_t)24 << 20)

/* SQNR is measured on all elements of units up to this size, and on evenly spaced bands of larger ones. */
#define SQNR_ELEMENTS ((uint64_t)1 << 20)

struct unit_stats {
	double signal, noise;
	struct quant_stats counts;
};

struct worker {
	void *memory;
	struct source_buffers buffers;
	char *run;	  /* aligned to WRITER_ALIGN, with room for a phase */
	void *scales;
};

struct converter {
	const struct quantize_plan *plan;
	const struct quantize_params *params;
	const struct backend *backend;
	struct progress *progress;
	struct band_limits limits;
	struct source source;
	int n_workers;
	struct worker *workers;
	pthread_mutex_t lock;	  /* of stats and amax */
	struct unit_stats *stats; /* by unit */
	float *group_amax;	  /* by group: tiles of a whole tensor, shared by what engines fuse */
	bool *group_known;
	float **unit_amax;	  /* by unit: rows that are longer than a band */
	bool *nonfinite;	  /* by unit, while looking for what to skip */
	struct band_list list;	  /* what the pool works on */
	const struct run *runs;
	struct writer *writer;
	struct writer *preserved;
};

int converter_memory(const struct quantize_params *params, struct band_limits *limits, uint64_t *bytes,
		     struct err *err)
{
	uint64_t most = params->max_memory ? params->max_memory : DEFAULT_MAX_MEMORY;
	uint64_t n = (uint64_t)params->n_threads;

	if (band_limits_fit(limits, most > BASE_MEMORY ? (most - BASE_MEMORY) / n : 0, err))
		return -1;
	*bytes = BASE_MEMORY + n * band_limits_memory(limits);
	return 0;
}

static int worker_init(struct worker *worker, const struct band_limits *limits, struct err *err)
{
	char *at;

	if (buffer_alloc(&worker->memory, band_limits_memory(limits), "a worker's buffers", err))
		return -1;
	at = worker->memory;
	worker->run = at;
	at += limits->run + WRITER_ALIGN;
	worker->buffers = (struct source_buffers){ at, at + limits->most, limits->most };
	worker->scales = at + 2 * limits->most;
	return 0;
}

int converter_new(struct converter **out, const struct quantize_plan *plan, const struct quantize_params *params,
		  struct progress *progress, struct err *err)
{
	size_t n_units = plan->selection.n_units;
	struct converter *converter = xcalloc(1, sizeof *converter);
	uint64_t bytes;

	*out = NULL;
	converter->plan = plan;
	converter->params = params;
	converter->progress = progress;
	pthread_mutex_init(&converter->lock, NULL);
	converter->backend = backend_select(params->backend ? params->backend : "auto", err);
	if (!converter->backend || converter_memory(params, &converter->limits, &bytes, err))
		goto fail;
	source_init(&converter->source, params->io, &plan->source, converter->backend, plan->stream_fd);
	converter->stats = xcalloc(n_units, sizeof *converter->stats);
	converter->unit_amax = xcalloc(n_units, sizeof *converter->unit_amax);
	converter->nonfinite = xcalloc(n_units, sizeof *converter->nonfinite);
	converter->group_amax = xcalloc(plan->selection.n_groups, sizeof *converter->group_amax);
	converter->group_known = xcalloc(plan->selection.n_groups, sizeof *converter->group_known);
	converter->workers = xcalloc((size_t)params->n_threads, sizeof *converter->workers);
	for (; converter->n_workers < params->n_threads; converter->n_workers++) {
		if (worker_init(&converter->workers[converter->n_workers], &converter->limits, err))
			goto fail;
	}
	*out = converter;
	return 0;
fail:
	converter_free(converter);
	return -1;
}

void converter_free(struct converter *converter)
{
	if (!converter)
		return;
	for (int i = 0; i < converter->n_workers; i++)
		free(converter->workers[i].memory);
	source_release(&converter->source);
	band_list_release(&converter->list);
	pthread_mutex_destroy(&converter->lock);
	free(converter->workers);
	free(converter->stats);
	free(converter->unit_amax);
	free(converter->nonfinite);
	free(converter->group_amax);
	free(converter->group_known);
	free(converter);
}

static const struct unit *band_unit(const struct converter *converter, const struct band *band, size_t *u)
{
	*u = band->unit;
	return &converter->plan->selection.units[*u];
}

/* Where a quantized unit has its amax from before: one value, or one for each row. */
static float *unit_known_amax(const struct converter *converter, size_t u)
{
	const struct unit *unit = &converter->plan->selection.units[u];

	if (converter->plan->specs[u].tile.rows == WHOLE)
		return &converter->group_amax[unit->group];
	return converter->unit_amax[u];
}

/* --- non-finite values --- */

static float element(const struct matrix *x, size_t row, size_t col)
{
	size_t i = row * x->stride + col;
	uint16_t half;
	float value;

	if (x->dtype == DT_F32) {
		memcpy(&value, (const char *)x->data + 4 * i, 4);
		return value;
	}
	memcpy(&half, (const char *)x->data + 2 * i, 2);
	return x->dtype == DT_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

/* The refusal: names the first value of the region that is not a number. */
static int refuse_nonfinite(const struct converter *converter, const struct unit *unit,
			    const struct region *region, const struct matrix *x, struct err *err)
{
	const char *file = converter->plan->source.shards[unit->source->shard].file.path;

	for (size_t row = 0; row < x->rows; row++) {
		for (size_t col = 0; col < x->cols; col++) {
			float value = element(x, row, col);

			if (!isfinite(value))
				return err_set(err, ERR_INPUT,
					       "tensor '%s' in '%s' is %s at [%llu, %llu]: --on-nonfinite saturate "
					       "quantizes it all the same, skip keeps the tensor",
					       unit->name, file,
					       isnan(value) ? "nan" : value > 0 ? "inf" : "-inf",
					       (unsigned long long)(region->row + row),
					       (unsigned long long)(region->col + col));
		}
	}
	return 0;
}

/* --- the first look: amax --- */

static int amax_band(void *context, int w, size_t item, struct err *err)
{
	struct converter *converter = context;
	const struct band *band = &converter->list.bands[item];
	const struct source_tee nowhere = { 0 };
	size_t u;
	const struct unit *unit = band_unit(converter, band, &u);
	const struct qspec *spec = &converter->plan->specs[u];
	bool whole = spec->tile.rows == WHOLE;
	struct tile tile = { whole ? WHOLE : 1, WHOLE };
	size_t n_amax = whole ? 1 : band->region.n_rows;
	float *amax = converter->workers[w].scales;
	float *known = unit_known_amax(converter, u);
	uint64_t n_nonfinite = 0;
	struct matrix x;

	if (source_read(&converter->source, unit, &band->region, &converter->workers[w].buffers, &nowhere, &x,
			err))
		return -1;
	memset(amax, 0, n_amax * sizeof *amax);
	backend_amax(converter->backend, &x, tile, amax, 1, &n_nonfinite);
	if (n_nonfinite && converter->params->on_nonfinite == NONFINITE_ERROR)
		return refuse_nonfinite(converter, unit, &band->region, &x, err);
	pthread_mutex_lock(&converter->lock);
	if (n_nonfinite)
		converter->nonfinite[u] = true;
	for (size_t i = 0; known && i < n_amax; i++) {
		float *value = &known[whole ? 0 : band->region.row + i];

		if (amax[i] > *value)
			*value = amax[i];
	}
	pthread_mutex_unlock(&converter->lock);
	return 0;
}

/* Adds the bands of what must be looked at before unit u can be cast: itself, or all that shares its scale. */
static void add_amax_bands(struct converter *converter, size_t u)
{
	const struct quantize_plan *plan = converter->plan;
	const struct unit *unit = &plan->selection.units[u];

	if (plan->specs[u].tile.rows != WHOLE) {
		if (converter->unit_amax[u])
			return;
		converter->unit_amax[u] = xcalloc(unit->rows, sizeof **converter->unit_amax);
		bands_add_unit(&converter->list, plan, u, &converter->limits, SIZE_MAX);
		return;
	}
	if (converter->group_known[unit->group])
		return;
	converter->group_known[unit->group] = true;
	for (size_t m = plan->group_first[unit->group]; m != SIZE_MAX; m = plan->group_next[m])
		bands_add_unit(&converter->list, plan, m, &converter->limits, SIZE_MAX);
}

static int window_amax(struct converter *converter, const struct band_list *work, size_t first, size_t end,
		       struct err *err)
{
	int rc = 0;

	for (size_t r = first; r < end; r++) {
		for (size_t b = 0; b < work->runs[r].n_bands; b++) {
			const struct band *band = &work->bands[work->runs[r].first_band + b];
			size_t u;
			const struct unit *unit = band_unit(converter, band, &u);

			if (unit->recipe &&
			    unit_needs_amax(unit, &converter->plan->specs[u], &converter->limits))
				add_amax_bands(converter, u);
		}
	}
	if (converter->list.n_bands)
		rc = pool_run(converter->n_workers, converter->list.n_bands, amax_band, converter,
			      converter->progress->stop, err);
	band_list_release(&converter->list);
	return rc;
}

/* --- the second look: codes and scales --- */

/* Scales of a band to their place in the file: whole rows of the grid lie together. */
static int write_scales(struct converter *converter, const struct band *band, const struct quant_out *out,
			struct err *err)
{
	const struct quantize_plan *plan = converter->plan;
	const struct output *codes = &plan->outputs[band->output];
	const struct output *scale = codes + 1;
	const struct output_shard *shard = &plan->shards[codes->shard];
	const struct qspec *spec = &plan->specs[codes->unit];
	const struct unit *unit = &plan->selection.units[codes->unit];
	struct tile tile = spec->tile;
	size_t size = scale_size(spec->scale_type);
	uint64_t grid_cols = tile_count(unit->cols, tile.cols);
	uint64_t n_rows = tile_count(band->region.n_rows, tile.rows);
	uint64_t n_cols = tile_count(band->region.n_cols, tile.cols);
	uint64_t row = tile.rows == WHOLE ? 0 : band->region.row / tile.rows;
	uint64_t col = tile.cols == WHOLE ? 0 : band->region.col / tile.cols;
	uint64_t at = shard->header.len + shard->tensors[scale->index].begin + (row * grid_cols + col) * size;

	/* Only one of the bands that share a tile writes its scale. */
	if ((tile.rows == WHOLE && band->region.row) || (tile.cols == WHOLE && band->region.col))
		return 0;
	if (n_cols == grid_cols)
		return writer_pwrite(converter->writer, out->scale_inv, n_rows * n_cols * size, at, err);
	for (uint64_t r = 0; r < n_rows; r++) {
		if (writer_pwrite(converter->writer, (const char *)out->scale_inv + r * n_cols * size,
				  n_cols * size, at + r * grid_cols * size, err))
			return -1;
	}
	return 0;
}

/* The part of a band's error that is measured: every k-th band of a large unit, so that about SQNR_ELEMENTS are. */
static bool band_is_sampled(const struct unit *unit, const struct region *region)
{
	uint64_t n = unit->rows * unit->cols;
	uint64_t every = (n + SQNR_ELEMENTS - 1) / SQNR_ELEMENTS;
	uint64_t number = (region->row / region->n_rows) + (region->col / region->n_cols);

	return every <= 1 || number % every == 0;
}

static void band_stats(struct converter *converter, size_t u, const struct region *region, const struct matrix *x,
		       const struct quant_out *out)
{
	const struct qspec *spec = &converter->plan->specs[u];
	double signal = 0, noise = 0;

	if (band_is_sampled(&converter->plan->selection.units[u], region)) {
		struct quant_in q = { .codes = out->codes,
				      .rows = x->rows,
				      .cols = x->cols,
				      .stride = out->stride,
				      .format = spec->format,
				      .tile = spec->tile,
				      .scale_type = spec->scale_type,
				      .scale_inv = out->scale_inv,
				      .scale_stride = out->scale_stride };

		backend_error(converter->backend, x, &q, &signal, &noise);
	}
	pthread_mutex_lock(&converter->lock);
	converter->stats[u].signal += signal;
	converter->stats[u].noise += noise;
	converter->stats[u].counts.saturated += out->stats->saturated;
	converter->stats[u].counts.nonfinite += out->stats->nonfinite;
	pthread_mutex_unlock(&converter->lock);
}

static struct source_tee preserved_tee(const struct converter *converter, size_t u)
{
	const struct quantize_plan *plan = converter->plan;
	const struct output_shard *shard;

	if (!converter->preserved)
		return (struct source_tee){ 0 };
	shard = &plan->preserved[plan->selection.units[u].source->shard];
	return (struct source_tee){ .writer = converter->preserved,
				    .offset = shard->header.len +
					      shard->tensors[plan->unit_preserved[u]].begin };
}

/* Reads and quantizes one band; its codes go to `codes`, its scales to the file. */
static int quantize_band(struct converter *converter, struct worker *worker, const struct band *band,
			 uint8_t *codes, struct err *err)
{
	size_t u;
	const struct unit *unit = band_unit(converter, band, &u);
	const struct qspec *spec = &converter->plan->specs[u];
	struct source_tee tee = preserved_tee(converter, u);
	struct quant_stats stats = { 0 };
	struct quant_out out = { .codes = codes,
				 .stride = band->region.n_cols,
				 .scale_inv = worker->scales,
				 .scale_stride = tile_count(band->region.n_cols, spec->tile.cols),
				 .stats = &stats };
	struct matrix x;

	if (source_read(&converter->source, unit, &band->region, &worker->buffers, &tee, &x, err))
		return -1;
	if (unit_needs_amax(unit, spec, &converter->limits)) {
		const float *amax = unit_known_amax(converter, u);

		if (spec->tile.rows != WHOLE)
			amax += band->region.row;
		backend_cast(converter->backend, &x, spec, amax, 1, &out);
	} else {
		backend_quantize(converter->backend, &x, spec, &out);
	}
	if (stats.nonfinite && converter->params->on_nonfinite == NONFINITE_ERROR)
		return refuse_nonfinite(converter, unit, &band->region, &x, err);
	band_stats(converter, u, &band->region, &x, &out);
	return write_scales(converter, band, &out, err);
}

/* The codes of part of the columns: row by row. */
static int write_scattered(struct converter *converter, const struct band *band, const struct run *run,
			   const char *codes, struct err *err)
{
	const struct output *output = &converter->plan->outputs[band->output];
	uint64_t header = converter->plan->shards[output->shard].header.len;
	uint64_t cols = converter->plan->selection.units[output->unit].cols;

	for (uint64_t r = 0; r < band->region.n_rows; r++) {
		if (writer_pwrite(converter->writer, codes + r * band->region.n_cols, band->region.n_cols,
				  header + run->begin + r * cols, err))
			return -1;
	}
	return 0;
}

static int convert_run(void *context, int w, size_t item, struct err *err)
{
	struct converter *converter = context;
	const struct run *run = &converter->runs[item];
	const struct band *bands = &converter->list.bands[run->first_band];
	const struct quantize_plan *plan = converter->plan;
	uint64_t begin = plan->shards[plan->outputs[bands->output].shard].header.len + run->begin;
	struct worker *worker = &converter->workers[w];
	char *data = worker->run + begin % WRITER_ALIGN;
	char *at = data;

	for (size_t b = 0; b < run->n_bands; b++) {
		const struct band *band = &bands[b];
		uint64_t size = band->region.n_rows * band->region.n_cols;
		size_t u;
		const struct unit *unit = band_unit(converter, band, &u);
		int rc = unit->recipe
				 ? quantize_band(converter, worker, band, (uint8_t *)at, err)
				 : source_read_bytes(&converter->source, unit->source, band->region.col,
						     (size_t)size, at, err);

		if (rc)
			return -1;
		at += size;
	}
	atomic_fetch_add(&converter->progress->done, run->input_bytes);
	if (run->scattered)
		return write_scattered(converter, bands, run, data, err);
	return writer_pwrite(converter->writer, data, (size_t)(run->end - run->begin), begin, err);
}

/* --- windows --- */

/* A source larger than half of the machine's memory would push everything else out of the page cache. */
static bool source_is_large(const struct converter *converter)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return converter->plan->source.data_bytes / 2 > pages / 4 * page;
}

static int convert_window(struct converter *converter, struct band_list *work, size_t first, size_t end,
			  struct err *err)
{
	int rc;

	if (window_amax(converter, work, first, end, err))
		return -1;
	converter->list = *work;
	converter->runs = work->runs + first;
	rc = pool_run(converter->n_workers, end - first, convert_run, converter, converter->progress->stop, err);
	converter->list = (struct band_list){ 0 };
	if (source_is_large(converter))
		source_drop_cache(&converter->source);
	return rc;
}

static int convert_windows(struct converter *converter, struct band_list *work, struct err *err)
{
	size_t first = 0;

	while (first < work->n_runs) {
		uint64_t bytes = 0;
		size_t end = first;

		while (end < work->n_runs && bytes < WINDOW_BYTES)
			bytes += work->runs[end++].input_bytes;
		if (convert_window(converter, work, first, end, err))
			return -1;
		first = end;
	}
	return 0;
}

/* Row amax is of use in its own shard only. */
static void release_row_amax(struct converter *converter)
{
	for (size_t u = 0; u < converter->plan->selection.n_units; u++) {
		free(converter->unit_amax[u]);
		converter->unit_amax[u] = NULL;
	}
}

int converter_shard(struct converter *converter, size_t shard, struct writer *writer, struct writer *preserved,
		    struct err *err)
{
	struct band_list work = { 0 };
	int rc;

	converter->writer = writer;
	converter->preserved = preserved;
	atomic_store(&converter->progress->shard, shard);
	bands_cut_shard(&work, converter->plan, shard, &converter->limits);
	rc = convert_windows(converter, &work, err);
	band_list_release(&work);
	release_row_amax(converter);
	if (source_close(&converter->source, rc ? &(struct err){ 0 } : err))
		rc = -1;
	return rc;
}

int converter_skip_nonfinite(struct converter *converter, struct selection *selection, struct err *err)
{
	int rc;

	for (size_t u = 0; u < selection->n_units; u++) {
		if (selection->units[u].recipe)
			bands_add_unit(&converter->list, converter->plan, u, &converter->limits,
				       SIZE_MAX);
	}
	rc = pool_run(converter->n_workers, converter->list.n_bands, amax_band, converter,
		      converter->progress->stop, err);
	band_list_release(&converter->list);
	if (source_close(&converter->source, rc ? &(struct err){ 0 } : err))
		rc = -1;
	for (size_t u = 0; !rc && u < selection->n_units; u++) {
		if (converter->nonfinite[u] && selection->units[u].recipe)
			selection_keep(selection, u, "non-finite values");
	}
	return rc;
}

void converter_result(const struct converter *converter, struct quantize_result *result)
{
	double worst = INFINITY;

	for (size_t u = 0; u < converter->plan->selection.n_units; u++) {
		const struct unit_stats *stats = &converter->stats[u];

		result->saturated += stats->counts.saturated;
		result->nonfinite += stats->counts.nonfinite;
		if (stats->noise > 0 && stats->signal / stats->noise < worst) {
			worst = stats->signal / stats->noise;
			result->worst = converter->plan->selection.units[u].name;
			result->worst_sqnr = 10 * log10(worst);
		}
	}
}
