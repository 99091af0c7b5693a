/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of FP8 weights: SQNR by layer, and for each group its codes and scales.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/report/page.h"
#include "num/fp8.h"
#include "report/escape.h"

/* --- SQNR --- */

/* Returns the cells of the first PAGE_MAX_LINES groups that have any, and their names. */
static void list_cells(const struct reported *reported, struct heat_map *map)
{
	const struct summary_values *values = reported->values;
	struct heat_cell *cells = xcalloc(values->n_cells, sizeof *cells);
	const char **lines = xcalloc(PAGE_MAX_LINES, sizeof *lines);
	size_t group = SIZE_MAX;

	for (size_t i = 0; i < values->n_cells; i++) {
		const struct summary_cell *cell = &values->cells[i];

		if (cell->group != group) {
			const char *pattern = reported->summary->groups[cell->group].pattern;

			if (map->n_lines == PAGE_MAX_LINES)
				break;
			group = cell->group;
			lines[map->n_lines++] = xstrndup(pattern, module_len(pattern));
		}
		cells[map->n_cells++] = (struct heat_cell){
			.line = map->n_lines - 1,
			.layer = cell->layer,
			.value = cell->sqnr.worst,
			.mean = cell->sqnr.sum / (double)cell->sqnr.n,
			.n = cell->sqnr.n,
		};
	}
	map->lines = lines;
	map->cells = cells;
}

static void heat_map_release(struct heat_map *map)
{
	for (size_t i = 0; i < map->n_lines; i++)
		free((char *)map->lines[i]);
	free((void *)map->lines);
	free((void *)map->cells);
}

void page_put_sqnr(struct buf *out, const struct reported *reported)
{
	struct heat_map map = { .label = "SQNR of each FP8 weight against the source, by layer" };

	page_open(out, "sqnr", "SQNR by layer and module");
	if (!reported->sqnr) {
		buf_puts(out, "<p>Not measured: run <code>fp8conv report</code> with "
			      "<code>--source</code>.</p>\n");
		page_close(out);
		return;
	}
	list_cells(reported, &map);
	if (map.n_cells) {
		buf_puts(out,
			 "<p class=\"note\">Signal to noise of each weight against the source, "
			 "in dB. A line is a module, a column a layer; at its end the lowest. "
			 "A cell of several weights, such as the experts of a layer, shows the "
			 "lowest of them.</p>\n");
		page_put_heat_map(out, &map);
	} else {
		buf_puts(out, "<p>No FP8 weight of a layer has a counterpart in the source.</p>\n");
	}
	heat_map_release(&map);
	page_close(out);
}

/* --- codes --- */

/* Adds the codes in the order of their values, from the most negative one. */
static void put_codes(struct buf *out, const struct tensor_group *group)
{
	enum fp8_format format = fp8_of_dtype(group->dtype);
	size_t n = (size_t)fp8_max_code(format) + 1; /* of each sign */
	uint64_t heights[256];
	char left[24], right[24];

	for (size_t i = 0; i < n; i++) {
		heights[i] = group->counts->codes[0x80 + (n - 1 - i)];
		heights[n + i] = group->counts->codes[i];
	}
	snprintf(left, sizeof left, "-%.0f", (double)fp8_max(format));
	snprintf(right, sizeof right, "%.0f", (double)fp8_max(format));
	page_put_bars(out, &(struct bars){ .label = "Histogram of codes, in the order of their "
						    "values",
					   .heights = heights,
					   .n = 2 * n,
					   .left = left,
					   .middle = "0",
					   .right = right });
}

/* Finds the exponents that occur.  Returns false without any. */
static bool scale_range(const struct code_counts *counts, size_t *first, size_t *last)
{
	bool any = false;

	for (size_t i = 0; i < N_SCALE_EXPONENTS; i++) {
		if (!counts->scales[i])
			continue;
		*first = any ? *first : i;
		*last = i;
		any = true;
	}
	return any;
}

static void put_scales(struct buf *out, const struct code_counts *counts)
{
	size_t first = 0, last = 0;
	char left[24], right[24];

	if (!scale_range(counts, &first, &last))
		return;
	snprintf(left, sizeof left, "scale 2^%d", (int)first + SCALE_EXPONENT_MIN);
	snprintf(right, sizeof right, "2^%d", (int)last + SCALE_EXPONENT_MIN);
	page_put_bars(out, &(struct bars){ .label = "Histogram of the exponents of scales",
					   .heights = counts->scales + first,
					   .n = last - first + 1,
					   .left = left,
					   .middle = "",
					   .right = first < last ? right : "" });
}

/* Adds all counts as text. */
static void put_counts(struct buf *out, const struct code_counts *counts)
{
	buf_puts(out, "<details><summary>Counts</summary><p class=\"codes\">Codes:");
	for (int code = 0; code < 256; code++)
		if (counts->codes[code])
			buf_printf(out, " %02x:%" PRIu64, code, counts->codes[code]);
	buf_puts(out, "</p><p class=\"scales\">Scales, by the exponent of two:");
	for (int i = 0; i < N_SCALE_EXPONENTS; i++)
		if (counts->scales[i])
			buf_printf(out, " %d:%" PRIu64, i + SCALE_EXPONENT_MIN, counts->scales[i]);
	if (counts->n_other_scales)
		buf_printf(out, " other:%" PRIu64, counts->n_other_scales);
	buf_puts(out, "</p></details>\n");
}

static void put_fact(struct buf *out, const char *name)
{
	buf_printf(out, "<dt>%s</dt><dd>", name);
}

static void put_sqnr(struct buf *out, const struct reported *reported, const struct sqnr *sqnr)
{
	if (!sqnr->n)
		return;
	put_fact(out, "lowest SQNR");
	page_put_real(out, sqnr->worst, 2);
	buf_puts(out, " dB in <code>");
	page_put_module(out, reported->inspection->checkpoint.tensors[sqnr->tensor].tensor->name);
	buf_puts(out, "</code></dd>");
	if (!isfinite(sqnr->sum))
		return;
	put_fact(out, "mean SQNR");
	buf_printf(out, "%.2f dB</dd>", sqnr->sum / (double)sqnr->n);
}

static void put_numbers(struct buf *out, const struct reported *reported, size_t g)
{
	const struct group_values *values = &reported->values->groups[g];

	buf_puts(out, "<dl>");
	put_fact(out, "saturated");
	buf_printf(out, "%" PRIu64 ", ", values->n_saturated);
	page_put_share(out, values->n_saturated, values->n_codes);
	buf_puts(out, "</dd>");
	put_fact(out, "zeros");
	buf_printf(out, "%" PRIu64 ", ", values->n_zeros);
	page_put_share(out, values->n_zeros, values->n_codes);
	buf_puts(out, "</dd>");
	if (values->n_nonfinite) {
		put_fact(out, "NaN and infinity");
		buf_printf(out, "%" PRIu64 "</dd>", values->n_nonfinite);
	}
	put_fact(out, "amax");
	buf_printf(out, "%.5g</dd>", (double)values->amax);
	put_fact(out, "scales");
	buf_printf(out, "%.4g to %.4g</dd>", (double)values->scale_min, (double)values->scale_max);
	put_sqnr(out, reported, &reported->values->sqnr[g]);
	buf_puts(out, "</dl>\n");
}

static void put_group(struct buf *out, const struct reported *reported, size_t g, bool shared)
{
	const struct tensor_group *group = &reported->summary->groups[g];

	buf_puts(out, "<article class=\"card\">\n<h3>");
	page_put_module(out, group->pattern);
	buf_printf(out, "</h3>\n<p class=\"note\">%zu tensor%s, ", group->n_tensors,
		   group->n_tensors == 1 ? "" : "s");
	report_put_type(out, group);
	buf_puts(out, ", a scale for ");
	report_put_tile(out, group);
	buf_puts(out, "</p>\n");
	put_codes(out, group);
	put_scales(out, group->counts);
	if (shared)
		buf_puts(out, "<p class=\"note\">The charts are of this and all further "
			      "groups.</p>\n");
	put_numbers(out, reported, g);
	put_counts(out, group->counts);
	buf_puts(out, "</article>\n");
}

void page_put_codes(struct buf *out, const struct reported *reported)
{
	const struct summary *summary = reported->summary;
	size_t n = 0, n_fp8 = 0;

	for (size_t g = 0; g < summary->n; g++)
		n_fp8 += summary->groups[g].fp8;
	page_open(out, "codes", "Codes and scales");
	buf_puts(out, "<p class=\"note\">For each kind of module: how often each FP8 code occurs, "
		      "by value, and how often scales have each exponent of two. Saturated codes "
		      "have the largest finite magnitude: the largest value of a tile, or one "
		      "beyond it.</p>\n<div class=\"grid\">\n");
	for (size_t g = 0; g < summary->n && n < PAGE_MAX_LINES; g++)
		if (summary->groups[g].fp8 && n++ < PAGE_MAX_LINES)
			put_group(out, reported, g,
				  n == SUMMARY_MAX_COUNTS && n_fp8 > SUMMARY_MAX_COUNTS);
	buf_puts(out, "</div>\n");
	if (n_fp8 > n)
		buf_printf(out,
			   "<p class=\"note\">%zu more kinds are in the list of all "
			   "tensors.</p>\n",
			   n_fp8 - n);
	page_close(out);
}
