/* SPDX-License-Identifier: Apache-2.0 */
#include "report/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "base/sort.h"
#include "names/tensor_name.h"

static void add_site(struct curve *kind, const struct amax_site *site, const struct curves *curves)
{
	/* Rows end with the last pass of the calibration. */
	size_t first = (size_t)curves->n_rows - site->n_passes;

	kind->n_sites++;
	for (size_t row = 0; row < site->n_passes; row++) {
		size_t point = (first + row) / (size_t)curves->passes_of_point;
		const float *amax = site->history[row];

		kind->x[point] = fmaxf(kind->x[point], amax[AMAX_X]);
		kind->y[point] = fmaxf(kind->y[point], amax[AMAX_Y]);
		kind->max = fmaxf(kind->max, amax[AMAX_X]);
	}
}

static void add_kind(struct curves *curves, struct intern *patterns, const struct amax_site *site)
{
	uint32_t layer;
	char *pattern = name_pattern(site->name, &layer);
	size_t k = intern_add(patterns, pattern, strlen(pattern));

	if (k >= CURVES_MAX) {
		curves->n_left_out++;
		free(pattern);
		return;
	}
	if (k == curves->n) {
		ARRAY_GROW(curves->list, curves->n);
		curves->list[curves->n++] = (struct curve){ .pattern = pattern };
	} else {
		free(pattern);
	}
	add_site(&curves->list[k], site, curves);
}

COMPARISON(by_pattern, struct curve, strcmp(x->pattern, y->pattern))

void curves_make(struct curves *curves, const struct amax_stats *stats)
{
	struct intern patterns = { 0 };

	*curves = (struct curves){ .n_passes = stats->n_passes,
				   .n_tokens = stats->n_tokens,
				   .seq_len = stats->seq_len,
				   .precision = xstrdup(stats->precision),
				   .model = xstrdup(stats->model) };
	for (size_t i = 0; i < stats->n_sites; i++)
		if (stats->sites[i]->n_passes > curves->n_rows)
			curves->n_rows = stats->sites[i]->n_passes;
	curves->passes_of_point = (curves->n_rows + CURVES_POINTS - 1) / CURVES_POINTS;
	if (curves->n_rows)
		curves->n_points = (size_t)((curves->n_rows + curves->passes_of_point - 1) /
					    curves->passes_of_point);
	for (size_t i = 0; i < stats->n_sites; i++)
		if (stats->sites[i]->kind == AMAX_GEMM)
			add_kind(curves, &patterns, stats->sites[i]);
	if (curves->n)
		qsort(curves->list, curves->n, sizeof *curves->list, by_pattern);
	intern_release(&patterns);
}

int curves_read(struct curves *curves, const struct io *io, const char *path, struct err *err)
{
	struct amax_stats stats = { 0 };

	*curves = (struct curves){ 0 };
	if (amax_stats_read(&stats, io, path, err))
		return -1;
	curves_make(curves, &stats);
	amax_stats_release(&stats);
	return 0;
}

void curves_release(struct curves *curves)
{
	for (size_t k = 0; k < curves->n; k++)
		free(curves->list[k].pattern);
	free(curves->list);
	free(curves->precision);
	free(curves->model);
	*curves = (struct curves){ 0 };
}
