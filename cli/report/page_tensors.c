/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a page: SQNR by layer, groups with their codes and scales, and the list of all.
 */
#include "cli/report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "cli/print/units.h"
#include "report/escape.h"

#define MAX_CELLS   16384     /* of a heat map */
#define MAX_GROUPS  (1200000) /* bytes of data after which no group begins */
#define MAX_DATA    (3400000) /* bytes of data after which the list of tensors ends */
#define MAX_NUMBERS 16	      /* of a name; more are left out */

void page_text(struct json_out *out, const char *key, const char *text)
{
	char *clean = text ? escape_clean(text, ESCAPE_MAX) : NULL;

	json_out_text(out, key, clean);
	free(clean);
}

void page_buf(struct json_out *out, const char *key, struct buf *text)
{
	json_out_text(out, key, text->len ? text->data : NULL);
	text->len = 0;
}

void page_ratio(struct json_out *out, const char *key, double value)
{
	if (isinf(value))
		json_out_text(out, key, value > 0 ? "exact" : "none");
	else
		json_out_real(out, key, value);
}

/* --- heat maps --- */

COMPARISON(by_place, struct heat_cell, ORDER(x->line, y->line) ?: ORDER(x->layer, y->layer))

/* Adds the cell that those from *cell on in one place make, and steps behind them. */
static void cell_json(struct json_out *out, const struct heat_cell **cell,
		      const struct heat_cell *end)
{
	const struct heat_cell *first = *cell;
	double lowest = INFINITY, sum = 0;

	for (; *cell < end && !by_place(*cell, first); ++*cell) {
		lowest = fmin(lowest, (*cell)->ratio);
		sum += (*cell)->ratio;
	}
	json_out_open(out, NULL, '[');
	json_out_count(out, NULL, first->layer);
	page_ratio(out, NULL, lowest);
	page_ratio(out, NULL, sum / (double)(*cell - first));
	json_out_count(out, NULL, (size_t)(*cell - first));
	json_out_close(out, ']');
}

void page_put_heat_map(struct json_out *out, const char *key, struct heat_cell *cells, size_t n)
{
	const struct heat_cell *cell = cells, *end = cells + n;
	size_t n_put = 0;

	if (n)
		sort(cells, n, sizeof *cells, by_place);
	json_out_open(out, key, '{');
	json_out_open(out, "lines", '[');
	while (cell < end && n_put < MAX_CELLS) {
		size_t line = cell->line;
		char *module = xstrndup(cell->name, module_len(cell->name));

		json_out_open(out, NULL, '{');
		page_text(out, "name", module);
		free(module);
		json_out_open(out, "cells", '[');
		for (; cell < end && cell->line == line && n_put < MAX_CELLS; n_put++)
			cell_json(out, &cell, end);
		json_out_close(out, ']');
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_count(out, "left", (size_t)(end - cell));
	json_out_close(out, '}');
}

void page_put_sqnr(struct json_out *out, const struct reported *reported)
{
	const struct summary *summary = reported->summary;
	size_t n_tensors = reported->inspection->checkpoint.n_tensors, n = 0;
	struct heat_cell *cells = xcalloc(n_tensors, sizeof *cells);

	for (size_t t = 0; reported->sqnr && t < n_tensors; t++) {
		size_t g = summary->group_of[t];

		if (g != SIZE_MAX && summary->layer_of[t] != NO_LAYER && !isnan(reported->sqnr[t]))
			cells[n++] = (struct heat_cell){ summary->groups[g].pattern, g,
							 summary->layer_of[t], reported->sqnr[t] };
	}
	page_put_heat_map(out, "sqnr", cells, n);
	free(cells);
}

/* --- groups of tensors --- */

static void shape_put(struct buf *out, const struct st_tensor *tensor)
{
	for (int i = 0; i < tensor->n_dims; i++)
		buf_printf(out, "%s%llu", i ? "x" : "", (unsigned long long)tensor->shape[i]);
	if (!tensor->n_dims)
		buf_puts(out, "scalar");
}

/* Adds counts up to the last one that is not 0. */
static void counts_json(struct json_out *out, const char *key, const uint64_t *counts, size_t n)
{
	while (n && !counts[n - 1])
		n--;
	json_out_counts(out, key, counts, n);
}

/* Adds the counts of scales by exponent, behind the exponent of the first one. */
static void scales_json(struct json_out *out, const struct code_counts *counts)
{
	size_t first = 0, end = N_SCALE_EXPONENTS;

	while (end && !counts->scales[end - 1])
		end--;
	while (first < end && !counts->scales[first])
		first++;
	json_out_open(out, "scales", '[');
	json_out_real(out, NULL, (int)first + SCALE_EXPONENT_MIN);
	for (size_t i = first; i < end; i++)
		json_out_count(out, NULL, counts->scales[i]);
	json_out_close(out, ']');
	json_out_count(out, "other", counts->n_other_scales);
}

static void values_json(struct json_out *out, const struct reported *reported, size_t g)
{
	const struct tensor_stats *values = &reported->values->groups[g];
	const struct sqnr *sqnr = &reported->values->sqnr[g];
	const struct tensor_ref *tensors = reported->inspection->checkpoint.tensors;

	json_out_count(out, "values", values->n_codes);
	json_out_count(out, "saturated", values->n_saturated);
	json_out_count(out, "zeros", values->n_zeros);
	json_out_count(out, "nonfinite", values->n_nonfinite);
	json_out_float(out, "amax", values->amax);
	json_out_float(out, "scale_min", values->scale_min);
	json_out_float(out, "scale_max", values->scale_max);
	if (!sqnr->n)
		return;
	page_ratio(out, "lowest", sqnr->worst);
	page_text(out, "lowest_in", tensors[sqnr->tensor].tensor->name);
	page_ratio(out, "mean", sqnr->sum / (double)sqnr->n);
}

static void group_json(struct json_out *out, const struct reported *reported, size_t g,
		       bool with_counts)
{
	const struct tensor_group *group = &reported->summary->groups[g];
	struct buf text = { 0 };

	json_out_open(out, NULL, '{');
	page_text(out, "name", group->pattern);
	json_out_count(out, "n", group->n_tensors);
	report_put_type(&text, group);
	page_buf(out, "type", &text);
	json_out_bool(out, "fp8", group->fp8);
	if (group->one_shape)
		shape_put(&text, group->first);
	page_buf(out, "shape", &text);
	units_size(&text, group->n_bytes);
	page_buf(out, "size", &text);
	if (group->fp8)
		report_put_tile(&text, group);
	else
		buf_puts(&text, group->reason ? group->reason : "unknown");
	page_text(out, "what", text.data);
	if (with_counts) {
		counts_json(out, "codes", group->counts->codes, 256);
		scales_json(out, group->counts);
		values_json(out, reported, g);
	}
	json_out_close(out, '}');
	buf_release(&text);
}

size_t page_put_groups(struct json_out *out, const struct reported *reported)
{
	const struct summary *summary = reported->summary;
	size_t g = 0, n_counted = 0;

	json_out_open(out, "groups", '[');
	for (; g < summary->n && ftello(out->stream) < MAX_GROUPS; g++) {
		bool counted = summary->groups[g].fp8 && n_counted < SUMMARY_MAX_COUNTS;

		n_counted += counted;
		group_json(out, reported, g, counted);
	}
	json_out_close(out, ']');
	json_out_count(out, "groups_left", summary->n - g);
	return g;
}

/* --- all tensors --- */

/* Adds the numbers of a name in their order, with points between. */
static void name_numbers_put(struct buf *out, const char *name)
{
	int n = 0;

	for (const char *at = name, *end; at && n < MAX_NUMBERS; at = *end ? end + 1 : NULL) {
		struct segment segment = { at, strcspn(at, ".") };

		end = at + segment.n;
		if (!segment_is_number(&segment))
			continue;
		if (n++)
			buf_putc(out, '.');
		buf_add(out, at, segment.n < MAX_NUMBERS ? segment.n : MAX_NUMBERS);
	}
}

/* Adds "NUMBERS,SHAPE,AMAX,SATURATED,ZEROS,SQNR", where the shape is empty if it is that of the
 * group, and fields at the end are left out. */
static void tensor_put(struct buf *out, const struct reported *reported,
		       const struct tensor_group *group, size_t t)
{
	const struct checkpoint *checkpoint = &reported->inspection->checkpoint;
	const struct low_bit_weight *low_bit = low_bit_of(&reported->inspection->low_bit, t);
	const struct tensor_stats *stats = &reported->stats[t];
	const double codes = (double)stats->n_codes / 100;

	name_numbers_put(out, checkpoint->tensors[t].tensor->name);
	buf_putc(out, ',');
	if (!group->one_shape)
		shape_put(out, low_bit ? &low_bit->tensor : checkpoint->tensors[t].tensor);
	if (stats->known && stats->amax > 0)
		buf_printf(out, ",%.4g", (double)stats->amax);
	else if (stats->n_codes)
		buf_putc(out, ',');
	if (!stats->n_codes)
		return;
	buf_printf(out, ",%.3g,%.3g", (double)stats->n_saturated / codes,
		   (double)stats->n_zeros / codes);
	if (!reported->sqnr || isnan(reported->sqnr[t]))
		return;
	if (isinf(reported->sqnr[t]))
		buf_puts(out, reported->sqnr[t] > 0 ? ",exact" : ",none");
	else
		buf_printf(out, ",%.2f", reported->sqnr[t]);
}

/* The tensors of one group follow each other. */
struct place_in_group {
	size_t group, at;
};

COMPARISON(by_group, struct place_in_group, ORDER(x->group, y->group) ?: ORDER(x->at, y->at))

/* Returns the tensors but scales by group, in the order of names; *n becomes their number. */
static struct place_in_group *list_tensors(const struct reported *reported, size_t *n)
{
	const struct summary *summary = reported->summary;
	size_t n_tensors = reported->inspection->checkpoint.n_tensors;
	struct place_in_group *list = xcalloc(n_tensors, sizeof *list);

	*n = 0;
	for (size_t i = 0; i < n_tensors; i++)
		if (summary->group_of[summary->order[i]] != SIZE_MAX)
			list[(*n)++] =
				(struct place_in_group){ summary->group_of[summary->order[i]], i };
	if (*n)
		qsort(list, *n, sizeof *list, by_group);
	return list;
}

void page_put_tensors(struct json_out *out, const struct reported *reported, size_t n_groups)
{
	const struct summary *summary = reported->summary;
	size_t n, i = 0, used = (size_t)ftello(out->stream);
	struct place_in_group *list = list_tensors(reported, &n);
	struct buf text = { 0 };

	json_out_open(out, "tensors", '[');
	while (i < n && list[i].group < n_groups && used < MAX_DATA) {
		size_t g = list[i].group, first = i;

		for (; i < n && list[i].group == g && used + text.len < MAX_DATA; i++) {
			if (i > first)
				buf_putc(&text, ';');
			tensor_put(&text, reported, &summary->groups[g],
				   summary->order[list[i].at]);
		}
		used += text.len + 16;
		json_out_open(out, NULL, '[');
		json_out_count(out, NULL, g);
		page_buf(out, NULL, &text);
		json_out_close(out, ']');
	}
	json_out_close(out, ']');
	json_out_count(out, "tensors_left", n - i);
	buf_release(&text);
	free(list);
}
