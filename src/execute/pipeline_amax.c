/* SPDX-License-Identifier: Apache-2.0
 *
 * The amax pass: takes the amax of tiles that do not fit a band, and searches for units with
 * non-finite values.
 */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "base/pool.h"
#include "execute/pipeline.h"

/* Some MiB: the disk reads ahead while workers wait for their data. */
#define BANDS_AHEAD 32

float *pipeline_known_amax(const struct pipeline *pipeline, size_t u)
{
	const struct unit *unit = &pipeline->plan->selection.units[u];

	if (pipeline->plan->units[u].spec->tile.rows == WHOLE)
		return &pipeline->amax.groups[unit->scale_group];
	return pipeline->amax.units[u];
}

int pipeline_refuse_nonfinite(const struct pipeline *pipeline, const struct unit *unit,
			      const struct rect *rect, const struct matrix *x, struct err *err)
{
	const char *file = pipeline->plan->source.shards[unit->source->shard].file.path;

	for (size_t row = 0; row < x->rows; row++) {
		for (size_t col = 0; col < x->cols; col++) {
			float value = matrix_at(x, row, col);

			if (!isfinite(value))
				return err_set(
					err, ERR_INPUT,
					"tensor '%s' in '%s' is %s at [%" PRIu64 ", %" PRIu64
					"]: use --on-nonfinite saturate to quantize it, or skip to "
					"keep the tensor",
					unit->name, file,
					isnan(value) ? "nan"
					: value > 0  ? "inf"
						     : "-inf",
					rect->row + row, rect->col + col);
		}
	}
	return 0;
}

int band_read_ahead(struct pipeline *pipeline, const struct band *band, struct err *err)
{
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	const struct rect *rect = &band->rect;
	uint64_t bits = dtype_bits(unit->source->tensor->dtype);

	if (unit->slice.col_stride != 1)
		return 0;
	return source_read_ahead(
		&pipeline->source, unit->source,
		(unit->slice.first + rect->row * unit->slice.row_stride + rect->col) * bits / 8,
		rect->n_rows * unit->slice.row_stride * bits / 8, err);
}

/* The bands of units whose amax is taken before any of them is cast. */
struct amax_pass {
	struct pipeline *pipeline;
	struct band_list list;
};

/* Reads a band, and writes the amax of each of n tiles (n 1: of the whole band, else of each row)
 * to the worker's memory. */
static int band_amax(struct pipeline *pipeline, int w, const struct band *band, struct matrix *x,
		     uint64_t *n_nonfinite, struct err *err)
{
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	bool whole = pipeline->plan->units[band->unit].spec->tile.rows == WHOLE;
	struct tile tile = { whole ? WHOLE : 1, WHOLE };
	struct source_request request = { .unit = unit,
					  .rect = band->rect,
					  .buffers = pipeline->workers[w].buffers };
	float *amax = pipeline->workers[w].scales;

	if (source_read(&pipeline->source, &request, x, err))
		return -1;
	memset(amax, 0, (whole ? 1 : band->rect.n_rows) * sizeof *amax);
	*n_nonfinite = 0;
	backend_amax(pipeline->backend, x, tile, amax, 1, n_nonfinite);
	return backend_failed(pipeline->backend, unit->name, err);
}

static int amax_item(void *context, int w, size_t item, struct err *err)
{
	const struct amax_pass *pass = context;
	struct pipeline *pipeline = pass->pipeline;
	const struct band *band = &pass->list.bands[item];
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	bool whole = pipeline->plan->units[band->unit].spec->tile.rows == WHOLE;
	float *known =
		pipeline_known_amax(pipeline, band->unit) +
		unit_tile_row(unit, (struct tile){ whole ? WHOLE : 1, WHOLE }, band->rect.row);
	const float *amax = pipeline->workers[w].scales;
	size_t ahead = item + BANDS_AHEAD;
	uint64_t n_nonfinite;
	struct matrix x;

	if (writer_is_direct(pipeline->work.writer) && ahead < pass->list.n_bands &&
	    band_read_ahead(pipeline, &pass->list.bands[ahead], err))
		return -1;
	if (band_amax(pipeline, w, band, &x, &n_nonfinite, err))
		return -1;
	if (n_nonfinite && pipeline->params->on_nonfinite == NONFINITE_ERROR)
		return pipeline_refuse_nonfinite(pipeline, unit, &band->rect, &x, err);
	pthread_mutex_lock(&pipeline->lock);
	for (size_t i = 0; i < (whole ? 1 : band->rect.n_rows); i++) {
		if (amax[i] > known[i])
			known[i] = amax[i];
	}
	pthread_mutex_unlock(&pipeline->lock);
	return 0;
}

/* Adds the bands to read before unit u can be cast: the bands of all units that share its scale. */
static void add_amax_bands(struct amax_pass *pass, size_t u)
{
	struct pipeline *pipeline = pass->pipeline;
	const struct plan *plan = pipeline->plan;
	const struct unit *unit = &plan->selection.units[u];
	struct known_amax *known = &pipeline->amax;

	if (plan->units[u].spec->tile.rows != WHOLE) {
		if (known->units[u])
			return;
		known->units[u] = xcalloc(unit->rows, sizeof **known->units);
		bands_add_unit(&pass->list, plan, u, &pipeline->limits, SIZE_MAX);
		return;
	}
	if (known->has_group[unit->scale_group])
		return;
	known->has_group[unit->scale_group] = true;
	for (size_t m = plan->groups[unit->scale_group].first; m != NO_UNIT;
	     m = plan->units[m].next_in_group)
		bands_add_unit(&pass->list, plan, m, &pipeline->limits, SIZE_MAX);
}

int pipeline_amax(struct pipeline *pipeline, const struct band_list *list, size_t first, size_t end,
		  struct err *err)
{
	struct amax_pass pass = { .pipeline = pipeline };
	int rc = 0;

	for (size_t e = first; e < end; e++) {
		for (size_t b = 0; b < list->extents[e].n_bands; b++) {
			const struct band *band = &list->bands[list->extents[e].first_band + b];
			size_t u = band->unit;

			if (pipeline->work.shard->outputs[band->output].kind == OUTPUT_CODES &&
			    unit_needs_amax(&pipeline->plan->selection.units[u],
					    pipeline->plan->units[u].spec, &pipeline->limits))
				add_amax_bands(&pass, u);
		}
	}
	if (pass.list.n_bands)
		rc = pool_run(pipeline->n_workers, pass.list.n_bands, amax_item, &pass,
			      pipeline->progress->stop, err);
	band_list_release(&pass.list);
	return rc;
}

/* The search for units to skip, one shard at a time. */
struct skip_scan {
	struct pipeline *pipeline;
	struct band_list list;
	atomic_bool *nonfinite; /* by unit */
};

static int skip_item(void *context, int w, size_t item, struct err *err)
{
	const struct skip_scan *scan = context;
	const struct band *band = &scan->list.bands[item];
	uint64_t n_nonfinite;
	struct matrix x;

	if (band_amax(scan->pipeline, w, band, &x, &n_nonfinite, err))
		return -1;
	if (n_nonfinite)
		atomic_store(&scan->nonfinite[band->unit], true);
	return 0;
}

static int skip_scan_shard(struct skip_scan *scan, size_t shard, struct err *err)
{
	struct pipeline *pipeline = scan->pipeline;
	const struct selection *selection = &pipeline->plan->selection;
	size_t end = selection_shard_begin(selection, shard + 1);
	int rc = 0;

	for (size_t u = selection_shard_begin(selection, shard); u < end; u++)
		if (selection->units[u].recipe)
			bands_add_unit(&scan->list, pipeline->plan, u, &pipeline->limits, SIZE_MAX);
	if (scan->list.n_bands)
		rc = pool_run(pipeline->n_workers, scan->list.n_bands, skip_item, scan,
			      pipeline->progress->stop, err);
	band_list_release(&scan->list);
	return source_close(&pipeline->source, rc, err);
}

/* Works shard by shard: a checkpoint may have more files than a process may open. */
int pipeline_skip_nonfinite(struct pipeline *pipeline, struct selection *selection, struct err *err)
{
	struct skip_scan scan = { .pipeline = pipeline };
	int rc = 0;

	scan.nonfinite = xcalloc(selection->n_units, sizeof *scan.nonfinite);
	for (size_t i = 0; !rc && i < pipeline->plan->source.n_shards; i++)
		rc = skip_scan_shard(&scan, i, err);
	for (size_t u = 0; !rc && u < selection->n_units; u++)
		if (scan.nonfinite[u] && selection->units[u].recipe)
			selection_keep(selection, u, "non-finite values");
	free(scan.nonfinite);
	return rc;
}
