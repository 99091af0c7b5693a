/* SPDX-License-Identifier: Apache-2.0
 *
 * The first look: amax of what does not fit a band, and of what may hold non-finite values.
 */
#include <math.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "base/pool.h"
#include "convert/pipeline.h"

/* Some MiB, as the disk is read while workers wait for what they wrote. */
#define BANDS_AHEAD 32

float *pipeline_known_amax(const struct pipeline *pipeline, size_t u)
{
	const struct unit *unit = &pipeline->plan->selection.units[u];

	if (pipeline->plan->specs[u]->tile.rows == WHOLE)
		return &pipeline->group_amax[unit->scale_group];
	return pipeline->unit_amax[u];
}

int pipeline_refuse_nonfinite(const struct pipeline *pipeline, const struct unit *unit,
			      const struct rect *rect, const struct matrix *x, struct err *err)
{
	const char *file = pipeline->plan->source.shards[unit->source->shard].file.path;

	for (size_t row = 0; row < x->rows; row++) {
		for (size_t col = 0; col < x->cols; col++) {
			float value = matrix_at(x, row, col);

			if (!isfinite(value))
				return err_set(err, ERR_INPUT,
					       "tensor '%s' in '%s' is %s at [%llu, %llu]: "
					       "--on-nonfinite saturate "
					       "quantizes it all the same, skip keeps the tensor",
					       unit->name, file,
					       isnan(value) ? "nan"
					       : value > 0  ? "inf"
							    : "-inf",
					       (unsigned long long)(rect->row + row),
					       (unsigned long long)(rect->col + col));
		}
	}
	return 0;
}

int band_read_ahead(struct pipeline *pipeline, const struct band *band, struct err *err)
{
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	const struct rect *rect = &band->rect;
	uint64_t size = dtype_bits(unit->source->tensor->dtype) / 8;

	if (unit->slice.col_stride != 1)
		return 0;
	return source_read_ahead(
		&pipeline->source, unit->source,
		(unit->slice.first + rect->row * unit->slice.row_stride + rect->col) * size,
		rect->n_rows * unit->slice.row_stride * size, err);
}

static int amax_band(void *context, int w, size_t item, struct err *err)
{
	struct pipeline *pipeline = context;
	const struct band *band = &pipeline->list.bands[item];
	size_t ahead = item + BANDS_AHEAD;
	const struct source_tee nowhere = { 0 };
	size_t u = band->unit;
	const struct unit *unit = &pipeline->plan->selection.units[u];
	const struct qspec *spec = pipeline->plan->specs[u];
	bool whole = spec->tile.rows == WHOLE;
	struct tile tile = { whole ? WHOLE : 1, WHOLE };
	size_t n_amax = whole ? 1 : band->rect.n_rows;
	float *amax = pipeline->workers[w].scales;
	float *known = pipeline_known_amax(pipeline, u);
	uint64_t n_nonfinite = 0;
	struct matrix x;

	if (pipeline->writer && writer_is_direct(pipeline->writer) &&
	    ahead < pipeline->list.n_bands &&
	    band_read_ahead(pipeline, &pipeline->list.bands[ahead], err))
		return -1;
	if (source_read(&pipeline->source, unit, &band->rect, &pipeline->workers[w].buffers,
			&nowhere, &x, err))
		return -1;
	memset(amax, 0, n_amax * sizeof *amax);
	backend_amax(pipeline->backend, &x, tile, amax, 1, &n_nonfinite);
	if (backend_failed(pipeline->backend, unit->name, err))
		return -1;
	if (n_nonfinite && pipeline->params->on_nonfinite == NONFINITE_ERROR)
		return pipeline_refuse_nonfinite(pipeline, unit, &band->rect, &x, err);
	pthread_mutex_lock(&pipeline->lock);
	if (n_nonfinite)
		pipeline->nonfinite[u] = true;
	for (size_t i = 0; known && i < n_amax; i++) {
		float *value = &known[whole ? 0 : band->rect.row + i];

		if (amax[i] > *value)
			*value = amax[i];
	}
	pthread_mutex_unlock(&pipeline->lock);
	return 0;
}

/* Adds the bands of what must be looked at before unit u can be cast: itself, or all that shares
 * its scale. */
static void add_amax_bands(struct pipeline *pipeline, size_t u)
{
	const struct plan *plan = pipeline->plan;
	const struct unit *unit = &plan->selection.units[u];

	if (plan->specs[u]->tile.rows != WHOLE) {
		if (pipeline->unit_amax[u])
			return;
		pipeline->unit_amax[u] = xcalloc(unit->rows, sizeof **pipeline->unit_amax);
		bands_add_unit(&pipeline->list, plan, u, &pipeline->limits, SIZE_MAX);
		return;
	}
	if (pipeline->group_known[unit->scale_group])
		return;
	pipeline->group_known[unit->scale_group] = true;
	for (size_t m = plan->group_first[unit->scale_group]; m != SIZE_MAX;
	     m = plan->group_next[m])
		bands_add_unit(&pipeline->list, plan, m, &pipeline->limits, SIZE_MAX);
}

int pipeline_amax(struct pipeline *pipeline, const struct band_list *work, size_t first, size_t end,
		  struct err *err)
{
	int rc = 0;

	for (size_t r = first; r < end; r++) {
		for (size_t b = 0; b < work->extents[r].n_bands; b++) {
			const struct band *band = &work->bands[work->extents[r].first_band + b];
			size_t u = band->unit;
			const struct unit *unit = &pipeline->plan->selection.units[u];

			if (pipeline->shard->outputs[band->output].kind == OUTPUT_CODES &&
			    unit_needs_amax(unit, pipeline->plan->specs[u], &pipeline->limits))
				add_amax_bands(pipeline, u);
		}
	}
	if (pipeline->list.n_bands)
		rc = pool_run(pipeline->n_workers, pipeline->list.n_bands, amax_band, pipeline,
			      pipeline->progress->stop, err);
	band_list_release(&pipeline->list);
	return rc;
}

int pipeline_skip_nonfinite(struct pipeline *pipeline, struct selection *selection, struct err *err)
{
	struct err ignored; /* the first error is the one to tell */
	size_t u = 0;
	int rc = 0;

	/* Shard by shard: a checkpoint may have more than a process may open. */
	while (!rc && u < selection->n_units) {
		size_t shard = selection->units[u].source->shard;

		for (; u < selection->n_units && selection->units[u].source->shard == shard; u++) {
			if (selection->units[u].recipe)
				bands_add_unit(&pipeline->list, pipeline->plan, u,
					       &pipeline->limits, SIZE_MAX);
		}
		if (pipeline->list.n_bands)
			rc = pool_run(pipeline->n_workers, pipeline->list.n_bands, amax_band,
				      pipeline, pipeline->progress->stop, err);
		band_list_release(&pipeline->list);
		if (source_close(&pipeline->source, rc ? &ignored : err))
			rc = -1;
	}
	for (u = 0; !rc && u < selection->n_units; u++) {
		if (pipeline->nonfinite[u] && selection->units[u].recipe)
			selection_keep(selection, u, "non-finite values");
	}
	return rc;
}
