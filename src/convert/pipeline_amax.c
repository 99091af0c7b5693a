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

float *unit_known_amax(const struct converter *converter, size_t u)
{
	const struct unit *unit = &converter->plan->selection.units[u];

	if (converter->plan->specs[u]->tile.rows == WHOLE)
		return &converter->group_amax[unit->scale_group];
	return converter->unit_amax[u];
}

int refuse_nonfinite(const struct converter *converter, const struct unit *unit,
		     const struct rect *rect, const struct matrix *x, struct err *err)
{
	const char *file = converter->plan->source.shards[unit->source->shard].file.path;

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

int band_read_ahead(struct converter *converter, const struct band *band, struct err *err)
{
	const struct unit *unit = &converter->plan->selection.units[band->unit];
	const struct rect *rect = &band->rect;
	uint64_t size = dtype_bits(unit->source->tensor->dtype) / 8;

	if (unit->slice.col_stride != 1)
		return 0;
	return source_read_ahead(
		&converter->source, unit->source,
		(unit->slice.first + rect->row * unit->slice.row_stride + rect->col) * size,
		rect->n_rows * unit->slice.row_stride * size, err);
}

static int amax_band(void *context, int w, size_t item, struct err *err)
{
	struct converter *converter = context;
	const struct band *band = &converter->list.bands[item];
	size_t ahead = item + BANDS_AHEAD;
	const struct source_tee nowhere = { 0 };
	size_t u = band->unit;
	const struct unit *unit = &converter->plan->selection.units[u];
	const struct qspec *spec = converter->plan->specs[u];
	bool whole = spec->tile.rows == WHOLE;
	struct tile tile = { whole ? WHOLE : 1, WHOLE };
	size_t n_amax = whole ? 1 : band->rect.n_rows;
	float *amax = converter->workers[w].scales;
	float *known = unit_known_amax(converter, u);
	uint64_t n_nonfinite = 0;
	struct matrix x;

	if (converter->writer && writer_is_direct(converter->writer) &&
	    ahead < converter->list.n_bands &&
	    band_read_ahead(converter, &converter->list.bands[ahead], err))
		return -1;
	if (source_read(&converter->source, unit, &band->rect, &converter->workers[w].buffers,
			&nowhere, &x, err))
		return -1;
	memset(amax, 0, n_amax * sizeof *amax);
	backend_amax(converter->backend, &x, tile, amax, 1, &n_nonfinite);
	if (backend_failed(converter->backend, unit->name, err))
		return -1;
	if (n_nonfinite && converter->params->on_nonfinite == NONFINITE_ERROR)
		return refuse_nonfinite(converter, unit, &band->rect, &x, err);
	pthread_mutex_lock(&converter->lock);
	if (n_nonfinite)
		converter->nonfinite[u] = true;
	for (size_t i = 0; known && i < n_amax; i++) {
		float *value = &known[whole ? 0 : band->rect.row + i];

		if (amax[i] > *value)
			*value = amax[i];
	}
	pthread_mutex_unlock(&converter->lock);
	return 0;
}

/* Adds the bands of what must be looked at before unit u can be cast: itself, or all that shares
 * its scale. */
static void add_amax_bands(struct converter *converter, size_t u)
{
	const struct plan *plan = converter->plan;
	const struct unit *unit = &plan->selection.units[u];

	if (plan->specs[u]->tile.rows != WHOLE) {
		if (converter->unit_amax[u])
			return;
		converter->unit_amax[u] = xcalloc(unit->rows, sizeof **converter->unit_amax);
		bands_add_unit(&converter->list, plan, u, &converter->limits, SIZE_MAX);
		return;
	}
	if (converter->group_known[unit->scale_group])
		return;
	converter->group_known[unit->scale_group] = true;
	for (size_t m = plan->group_first[unit->scale_group]; m != SIZE_MAX;
	     m = plan->group_next[m])
		bands_add_unit(&converter->list, plan, m, &converter->limits, SIZE_MAX);
}

int converter_amax(struct converter *converter, const struct band_list *work, size_t first,
		   size_t end, struct err *err)
{
	int rc = 0;

	for (size_t r = first; r < end; r++) {
		for (size_t b = 0; b < work->runs[r].n_bands; b++) {
			const struct band *band = &work->bands[work->runs[r].first_band + b];
			size_t u = band->unit;
			const struct unit *unit = &converter->plan->selection.units[u];

			if (converter->shard->outputs[band->output].part == PART_CODES &&
			    unit_needs_amax(unit, converter->plan->specs[u], &converter->limits))
				add_amax_bands(converter, u);
		}
	}
	if (converter->list.n_bands)
		rc = pool_run(converter->n_workers, converter->list.n_bands, amax_band, converter,
			      converter->progress->stop, err);
	band_list_release(&converter->list);
	return rc;
}

int converter_skip_nonfinite(struct converter *converter, struct selection *selection,
			     struct err *err)
{
	struct err ignored; /* the first error is the one to tell */
	size_t u = 0;
	int rc = 0;

	/* Shard by shard: a checkpoint may have more than a process may open. */
	while (!rc && u < selection->n_units) {
		size_t shard = selection->units[u].source->shard;

		for (; u < selection->n_units && selection->units[u].source->shard == shard; u++) {
			if (selection->units[u].recipe)
				bands_add_unit(&converter->list, converter->plan, u,
					       &converter->limits, SIZE_MAX);
		}
		if (converter->list.n_bands)
			rc = pool_run(converter->n_workers, converter->list.n_bands, amax_band,
				      converter, converter->progress->stop, err);
		band_list_release(&converter->list);
		if (source_close(&converter->source, rc ? &ignored : err))
			rc = -1;
	}
	for (u = 0; !rc && u < selection->n_units; u++) {
		if (converter->nonfinite[u] && selection->units[u].recipe)
			selection_keep(selection, u, "non-finite values");
	}
	return rc;
}
