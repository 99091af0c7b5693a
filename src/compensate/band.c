/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/band.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "base/pool.h"

#define ALIGN 64 /* bytes */

static uint64_t aligned(uint64_t size)
{
	return (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* The largest needs of a band: columns, and tiles. */
struct widest {
	uint64_t cols, tiles;
};

static struct widest widest_of(const struct compensate_plan *plan)
{
	const struct selection *selection = plan->units.selection;
	struct widest widest = { 0 };

	for (size_t u = 0; u < selection->n_units; u++) {
		const struct qspec *spec = plan->units.specs[u];
		uint64_t cols = selection->units[u].cols, tiles;

		if (plan->places[u].stage == STORE_NONE)
			continue;
		tiles = tile_count(BAND_ROWS, spec->tile.rows) * tile_count(cols, spec->tile.cols);
		widest.cols = cols > widest.cols ? cols : widest.cols;
		widest.tiles = tiles > widest.tiles ? tiles : widest.tiles;
	}
	return widest;
}

/* Returns the bytes of a thread's band; with memory, gives its arrays their places. */
static uint64_t band_place(struct band_memory *band, struct widest widest, char *memory)
{
	uint64_t n = BAND_ROWS * widest.cols, at = 0, raw = aligned(n * sizeof(float));
	const struct {
		void **place;
		uint64_t size;
	} arrays[] = {
		{ &band->buffers.matrix, n * sizeof(float) },
		{ &band->buffers.raw, raw },
		{ (void **)&band->values.data, n * sizeof(float) },
		{ (void **)&band->decoded, n * sizeof(float) },
		{ (void **)&band->nearest, n },
		{ (void **)&band->codes, n },
		{ (void **)&band->scalings, widest.tiles * sizeof *band->scalings },
		{ &band->scale_inv, widest.tiles * sizeof(float) },
		{ (void **)&band->amax, widest.tiles * sizeof *band->amax },
	};

	band->buffers.size = raw;
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
		if (memory)
			*arrays[i].place = memory + at;
		at += aligned(arrays[i].size);
	}
	return at;
}

uint64_t bands_size(const struct compensate_plan *plan)
{
	struct widest widest = widest_of(plan);
	struct band_memory band;
	uint64_t rounding = round_size((size_t)widest.cols, (struct tile){ 1, 32 }, 1);

	return (uint64_t)plan->params.n_threads * (band_place(&band, widest, NULL) + rounding);
}

int bands_open(struct bands *bands, const struct compensate_plan *plan, struct err *err)
{
	const struct compensate_params *params = &plan->params;
	size_t n_groups = plan->units.selection->n_scale_groups;
	struct widest widest = widest_of(plan);

	*bands = (struct bands){ .plan = plan };
	pthread_mutex_init(&bands->lock, NULL);
	source_init(&bands->source, params->io, params->checkpoint, params->cast, -1);
	bands->source.check_scales = true;
	bands->amax = xmalloc((n_groups + 1) * sizeof *bands->amax);
	memcpy(bands->amax, plan->units.group_amax, n_groups * sizeof *bands->amax);
	bands->workers = xcalloc((size_t)params->n_threads, sizeof *bands->workers);
	for (int i = 0; i < params->n_threads; i++) {
		struct band_memory *band = &bands->workers[i];

		if (buffer_alloc(&band->memory, band_place(band, widest, NULL),
				 "a band of a weight", err))
			return -1;
		band_place(band, widest, band->memory);
	}
	return 0;
}

void bands_release(struct bands *bands)
{
	if (!bands->plan)
		return;
	for (int i = 0; bands->workers && i < bands->plan->params.n_threads; i++)
		free(bands->workers[i].memory);
	free(bands->workers);
	free(bands->amax);
	source_release(&bands->source);
	pthread_mutex_destroy(&bands->lock);
	*bands = (struct bands){ 0 };
}

int bands_close(struct bands *bands, struct err *err)
{
	return source_close(&bands->source, 0, err);
}

static const struct unit *unit_of(const struct bands *bands, const struct compensate_job *job)
{
	return &bands->plan->units.selection->units[job->unit];
}

/* Reads the values of band i of a job. */
static int read_values(struct bands *bands, struct band_memory *band,
		       const struct compensate_job *job, uint64_t i, struct err *err)
{
	const struct unit *unit = unit_of(bands, job);
	uint64_t row = i * BAND_ROWS, left = job->n_rows - row;
	const struct source_request request = { .unit = unit,
						.rect = { job->first_row + row, 0,
							  left < BAND_ROWS ? left : BAND_ROWS,
							  unit->cols },
						.buffers = band->buffers };

	band->job = job;
	band->row = row;
	band->n_rows = request.rect.n_rows;
	band->spec = bands->plan->units.specs[job->unit];
	return source_read(&bands->source, &request, &band->x, err);
}

/* Returns the scale group of a job's matrix. */
static size_t scale_group_of(const struct bands *bands, const struct compensate_job *job)
{
	const struct unit *unit = unit_of(bands, job);

	return unit->scale_group + job->first_row / unit_matrix_rows(unit);
}

/* The bands of a stage whose amax is taken. */
struct band_amaxes {
	struct bands *bands;
	const struct compensate_job **jobs;
	uint64_t *first; /* (n + 1): the items of each job */
	size_t n;
};

static int amax_item(void *context, int worker, size_t item, struct err *err)
{
	const struct band_amaxes *pass = context;
	struct bands *bands = pass->bands;
	struct band_memory *band = &bands->workers[worker];
	float amax = 0, *known;
	uint64_t n_nonfinite = 0;
	size_t j = 0;

	while (pass->first[j + 1] <= item)
		j++;
	if (read_values(bands, band, pass->jobs[j], item - pass->first[j], err))
		return -1;
	backend_amax(bands->plan->params.cast, &band->x, (struct tile){ WHOLE, WHOLE }, &amax, 1,
		     &n_nonfinite);
	if (backend_failed(bands->plan->params.cast, unit_of(bands, band->job)->name, err))
		return -1;
	known = &bands->amax[scale_group_of(bands, band->job)];
	pthread_mutex_lock(&bands->lock);
	if (amax > *known)
		*known = amax;
	pthread_mutex_unlock(&bands->lock);
	return 0;
}

/* Adds a job whose scale is of a whole tensor that is not known.  pending: by scale group. */
static void add_amax_job(struct band_amaxes *pass, const struct compensate_job *job, bool *pending)
{
	struct bands *bands = pass->bands;
	size_t group = scale_group_of(bands, job);

	if (bands->plan->units.specs[job->unit]->tile.rows != WHOLE ||
	    (!isnan(bands->amax[group]) && !pending[group]))
		return;
	if (!pending[group])
		bands->amax[group] = 0;
	pending[group] = true;
	pass->jobs = xreallocarray(pass->jobs, pass->n + 1, sizeof *pass->jobs);
	pass->first = xreallocarray(pass->first, pass->n + 2, sizeof *pass->first);
	pass->first[0] = 0;
	pass->jobs[pass->n] = job;
	pass->first[pass->n + 1] = pass->first[pass->n] + bands_of_job(job);
	pass->n++;
}

int bands_take_amax(struct bands *bands, const struct compensate_stage *stage, struct err *err)
{
	bool *pending = xcalloc(bands->plan->units.selection->n_scale_groups + 1, sizeof *pending);
	const struct compensate_params *params = &bands->plan->params;
	struct band_amaxes pass = { .bands = bands };
	int rc = 0;

	for (size_t g = 0; g < stage->n_groups; g++)
		for (size_t j = 0; j < stage->groups[g].n_jobs; j++)
			add_amax_job(&pass, &stage->groups[g].jobs[j], pending);
	if (pass.n)
		rc = pool_run(params->n_threads, pass.first[pass.n], amax_item, &pass, params->stop,
			      err);
	free(pending);
	free(pass.jobs);
	free(pass.first);
	return rc;
}

/* Finds the amax of each tile.  Returns the number of tiles. */
static size_t take_amax(const struct bands *bands, struct band_memory *band)
{
	const struct tile tile = band->spec->tile;
	size_t n_rows = tile_count(band->n_rows, tile.rows);
	uint64_t n_nonfinite;

	band->tile_cols = tile_count(band->x.cols, tile.cols);
	if (tile.rows == WHOLE) {
		band->amax[0] = bands->amax[scale_group_of(bands, band->job)];
	} else {
		memset(band->amax, 0, n_rows * band->tile_cols * sizeof *band->amax);
		backend_amax(bands->plan->params.cast, &band->x, tile, band->amax, band->tile_cols,
			     &n_nonfinite);
	}
	return n_rows * band->tile_cols;
}

struct band_memory *band_read(struct bands *bands, int worker, const struct compensate_job *job,
			      uint64_t i, struct err *err)
{
	const struct backend *cast = bands->plan->params.cast;
	struct band_memory *band = &bands->workers[worker];
	struct quant_stats stats = { 0 };
	struct quant_out out;
	size_t n_tiles;
	float limit;

	if (read_values(bands, band, job, i, err))
		return NULL;
	n_tiles = take_amax(bands, band);
	limit = scale_limit(band->x.dtype, band->spec->tile);
	for (size_t t = 0; t < n_tiles; t++)
		band->scalings[t] = scaling_from_amax(band->spec, band->amax[t], limit);
	out = (struct quant_out){ .codes = band->nearest,
				  .stride = band->x.cols,
				  .scale_inv = band->scale_inv,
				  .scale_stride = band->tile_cols,
				  .stats = &stats };
	backend_cast(cast, &band->x, band->spec, band->amax, band->tile_cols, &out);
	if (backend_failed(cast, unit_of(bands, job)->name, err))
		return NULL;
	return band;
}

const struct matrix *band_values(struct band_memory *band)
{
	float *values = (float *)band->values.data;

	band->values = (struct matrix){ values, DT_F32, band->x.rows, band->x.cols, band->x.cols };
	for (size_t r = 0; r < band->x.rows; r++)
		matrix_row(&band->x, r, values + r * band->x.cols);
	return &band->values;
}

struct quant_in band_codes(const struct band_memory *band, const uint8_t *codes)
{
	return (struct quant_in){ .codes = codes,
				  .rows = band->n_rows,
				  .cols = band->x.cols,
				  .stride = band->x.cols,
				  .format = band->spec->format,
				  .tile = band->spec->tile,
				  .scale_type = band->spec->scale_type,
				  .scale_inv = band->scale_inv,
				  .scale_stride = band->tile_cols };
}

struct store_span band_span(const struct compensate_plan *plan, const struct band_memory *band,
			    size_t rho)
{
	const struct store_place *place = &plan->places[band->job->unit];
	uint64_t cols = band->x.cols;

	return (struct store_span){ place->stage, rho,
				    place->offset + (band->job->first_row + band->row) * cols,
				    (size_t)(band->n_rows * cols) };
}
