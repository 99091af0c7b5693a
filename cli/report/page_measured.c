/* SPDX-License-Identifier: Apache-2.0
 *
 * What was measured elsewhere: the numbers of an evaluation, and the curves of a calibration.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "base/sort.h"
#include "cli/report/page.h"
#include "report/escape.h"

/* --- evaluation --- */

static void put_number(struct buf *out, const struct quality_row *row, struct estimate estimate)
{
	const double factor = row->factor ? row->factor : 1;

	if (isnan(estimate.value))
		return;
	buf_printf(out, "<tr><td>%s</td><td class=\"n\">%.6f", row->title, factor * estimate.value);
	if (!isnan(estimate.se))
		buf_printf(out, " ± %.6f", factor * estimate.se);
	buf_printf(out, "%s</td></tr>\n", row->unit);
}

static void put_numbers(struct buf *out, const struct evaluation_file *evaluation)
{
	buf_puts(out, "<table><tbody>\n");
	for (size_t i = 0; i < N_QUALITY; i++)
		if (quality_rows[i].title && !quality_rows[i].of_spread)
			put_number(out, &quality_rows[i], evaluation->of[i]);
	buf_puts(out, "</tbody></table>\n");
}

#define SPREAD_WIDTH 430.0
#define SPREAD_LEFT  70.0
#define SPREAD_RIGHT 90.0
#define SPREAD_LINE  20.0
#define SPREAD_FLOOR 1e-6 /* where the logarithmic axis of KLD begins */

/* Adds a line of the chart: a bar whose length is the logarithm of the value. */
static void put_percentile(struct buf *out, size_t i, double value, double max)
{
	double y = SPREAD_LINE * (double)i, width = 0;

	if (value > SPREAD_FLOOR && max > SPREAD_FLOOR)
		width = (SPREAD_WIDTH - SPREAD_LEFT - SPREAD_RIGHT) * log(value / SPREAD_FLOOR) /
			log(max / SPREAD_FLOOR);
	buf_printf(out,
		   "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%s</text>"
		   "<rect class=\"fill\" x=\"%.0f\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\"/>"
		   "<text class=\"v\" x=\"%.1f\" y=\"%.0f\">",
		   SPREAD_LEFT - 6, y + 13, quality_rows[QUALITY_KLD_SPREAD + i].title, SPREAD_LEFT,
		   y + 2, fmin(width, SPREAD_WIDTH), SPREAD_LINE - 5,
		   SPREAD_LEFT + fmin(width, SPREAD_WIDTH) + 6, y + 13);
	if (isnan(value))
		buf_puts(out, "–");
	else
		buf_printf(out, "%.6f", value);
	buf_puts(out, "</text>\n");
}

static void put_percentiles(struct buf *out, const struct estimate *spread)
{
	const double height = SPREAD_LINE * N_SPREAD;

	buf_printf(out,
		   "<svg role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
		   "aria-label=\"Percentiles of the KLD of positions, on a logarithmic axis\">\n",
		   SPREAD_WIDTH, height, SPREAD_WIDTH, height);
	for (size_t i = 0; i < N_SPREAD; i++)
		put_percentile(out, i, spread[i].value, spread[0].value);
	buf_puts(out, "</svg>\n");
}

static void put_deltas(struct buf *out, const struct estimate *spread)
{
	buf_puts(out, "<table><tbody>\n");
	for (size_t i = 0; i < N_SPREAD; i++) {
		buf_printf(out, "<tr><td>%s</td><td class=\"n\">",
			   quality_rows[QUALITY_DELTA_P_SPREAD + i].title);
		page_put_real(out, spread[i].value, 4);
		buf_puts(out, " %</td></tr>\n");
	}
	buf_puts(out, "</tbody></table>\n");
}

static void put_data(struct buf *out, const struct evaluation_file *evaluation)
{
	buf_puts(out, "<p class=\"note\">Data: ");
	for (size_t i = 0; i < evaluation->n_data; i++) {
		char *name = report_base_name(evaluation->data[i]);

		buf_puts(out, "<code>");
		escape_html(out, name);
		buf_puts(out, "</code>, ");
		free(name);
	}
	if (evaluation->n_more_data)
		buf_printf(out, "%zu more, ", evaluation->n_more_data);
	buf_printf(out,
		   "%" PRIu64 " positions in %" PRIu64 " sequences of at most %" PRIu64
		   " tokens; SHA-256 of the token ids <code>%s</code>. Activations: ",
		   evaluation->tokens, evaluation->sequences, evaluation->seq_len,
		   evaluation->data_sha256);
	escape_html(out, evaluation->activations ? evaluation->activations : "engine");
	buf_puts(out, "; products in ");
	escape_html(out, evaluation->precision ? evaluation->precision : "bf16");
	buf_puts(out, ".</p>\n");
	if (evaluation->compared)
		buf_puts(out, "<p>Near the baseline, KLD says how far the outputs moved, and does "
			      "not rank benchmark scores.</p>\n");
}

void page_put_evaluation(struct buf *out, const struct reported *reported)
{
	const struct evaluation_file *evaluation = &reported->report->evaluation;

	if (!reported->report->has_evaluation)
		return;
	page_open(out, "evaluation", "Evaluation");
	put_data(out, evaluation);
	buf_puts(out, "<div class=\"grid\">\n<article class=\"card\"><h3>Numbers</h3>\n");
	put_numbers(out, evaluation);
	buf_puts(out, "</article>\n");
	if (evaluation->compared) {
		buf_puts(out, "<article class=\"card\"><h3>KLD of positions</h3>\n");
		put_percentiles(out, evaluation->of + QUALITY_KLD_SPREAD);
		buf_puts(out, "</article>\n<article class=\"card\"><h3>Probability of the next "
			      "token, less that of the source</h3>\n");
		put_deltas(out, evaluation->of + QUALITY_DELTA_P_SPREAD);
		buf_puts(out, "</article>\n");
	}
	buf_puts(out, "</div>\n");
	page_close(out);
}

/* --- modules of an evaluation --- */

static int by_place(const void *a, const void *b)
{
	const struct heat_cell *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->layer > y->layer) - (x->layer < y->layer);
}

/* Adds the cell of a module; the line is that of its pattern. */
static void add_cell(struct heat_map *map, struct intern *patterns, struct heat_cell *cells,
		     const char **lines, const struct measured_module *module)
{
	const char *name = module->name ? module->name : "residual stream";
	double value = module->name ? module->local : module->accumulated;
	uint32_t layer;
	char *pattern = name_pattern(name, &layer);
	size_t line;

	if (!isnan(value) && module->layer < NO_LAYER) {
		line = intern_add(patterns, pattern, strlen(pattern));
		if (line == map->n_lines && line < PAGE_MAX_LINES)
			lines[map->n_lines++] = xstrdup(pattern);
		if (line < PAGE_MAX_LINES)
			cells[map->n_cells++] =
				(struct heat_cell){ .line = line,
						    .layer = (uint32_t)module->layer,
						    .value = value,
						    .n = 1 };
	}
	free(pattern);
}

void page_put_layers(struct buf *out, const struct reported *reported)
{
	const struct evaluation_file *evaluation = &reported->report->evaluation;
	struct heat_cell *cells = xcalloc(evaluation->n_modules, sizeof *cells);
	const char *lines[PAGE_MAX_LINES];
	struct heat_map map = { .label = "SQNR of the output of each module, by layer",
				.lines = lines,
				.cells = cells };
	struct intern patterns = { 0 };

	for (size_t i = 0; i < evaluation->n_modules; i++)
		add_cell(&map, &patterns, cells, lines, &evaluation->modules[i]);
	if (evaluation->n_modules) {
		sort(cells, map.n_cells, sizeof *cells, by_place);
		page_open(out, "layers", "Outputs of modules");
		buf_puts(out, "<p class=\"note\">Signal to noise of what each module makes of the "
			      "source's input, and of the residual stream behind each layer, in "
			      "dB.</p>\n");
		page_put_heat_map(out, &map);
		page_close(out);
	}
	for (size_t i = 0; i < map.n_lines; i++)
		free((char *)lines[i]);
	intern_release(&patterns);
	free(cells);
}

/* --- calibration --- */

#define CURVE_WIDTH  320.0
#define CURVE_HEIGHT 80.0

/* The logarithmic axis of a chart. */
struct axis {
	double low, high;
};

static struct axis axis_of(const struct curve *curve, size_t n)
{
	struct axis axis = { .low = INFINITY, .high = -INFINITY };

	for (size_t i = 0; i < 2 * n; i++) {
		float value = i < n ? curve->x[i] : curve->y[i - n];

		if (value > 0 && isfinite(value)) {
			axis.low = fmin(axis.low, log2((double)value));
			axis.high = fmax(axis.high, log2((double)value));
		}
	}
	if (!(axis.low <= axis.high))
		axis.low = axis.high = 0;
	axis.low = floor(axis.low);
	axis.high = fmax(axis.low + 1, ceil(axis.high));
	return axis;
}

/* Adds a line through the values; passes without any interrupt it. */
static void put_line(struct buf *out, const char *style, const float *values, size_t n,
		     const struct axis *axis)
{
	bool drawn = false;

	buf_printf(out, "<path class=\"%s\" d=\"", style);
	for (size_t i = 0; i < n; i++) {
		double x = n > 1 ? CURVE_WIDTH * (double)i / (double)(n - 1) : 0;
		double share;

		if (!(values[i] > 0 && isfinite(values[i]))) {
			drawn = false;
			continue;
		}
		share = (log2((double)values[i]) - axis->low) / (axis->high - axis->low);
		buf_printf(out, "%s%.1f %.1f", drawn ? "L" : "M", x,
			   CURVE_HEIGHT * (1 - share) + 2);
		if (n == 1)
			buf_printf(out, "h%.0f", CURVE_WIDTH);
		drawn = true;
	}
	buf_puts(out, "\"/>");
}

static void put_curve(struct buf *out, const struct curves *curves, const struct curve *curve)
{
	const struct axis axis = axis_of(curve, curves->n_points);

	buf_puts(out, "<article class=\"card\"><h3>");
	escape_html(out, curve->pattern);
	buf_printf(out,
		   "</h3>\n<svg role=\"img\" width=\"%.0f\" height=\"%.0f\" "
		   "viewBox=\"0 0 %.0f %.0f\" aria-label=\"Largest amax of the inputs and "
		   "outputs of %zu modules, by pass\">",
		   CURVE_WIDTH, CURVE_HEIGHT + 20, CURVE_WIDTH, CURVE_HEIGHT + 20, curve->n_sites);
	buf_printf(out, "<path class=\"axis\" d=\"M0 1H%.0fM0 %.1fH%.0f\"/>", CURVE_WIDTH,
		   CURVE_HEIGHT + 2.5, CURVE_WIDTH);
	put_line(out, "y", curve->y, curves->n_points, &axis);
	put_line(out, "x", curve->x, curves->n_points, &axis);
	buf_printf(out,
		   "<text x=\"0\" y=\"%.0f\">from 2^%.0f to 2^%.0f</text>"
		   "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">pass %" PRIu64 "</text>",
		   CURVE_HEIGHT + 16, axis.low, axis.high, CURVE_WIDTH, CURVE_HEIGHT + 16,
		   curves->n_rows);
	buf_printf(out,
		   "</svg>\n<dl><dt>modules</dt><dd>%zu</dd><dt>amax of inputs</dt>"
		   "<dd>%.5g</dd></dl></article>\n",
		   curve->n_sites, (double)curve->max);
}

void page_put_calibration(struct buf *out, const struct reported *reported)
{
	const struct curves *curves = &reported->report->curves;

	if (!reported->report->has_curves)
		return;
	page_open(out, "calibration", "Calibration");
	buf_printf(out,
		   "<p class=\"note\">The largest amax of <span class=\"key\"></span>inputs and "
		   "<span class=\"key dash\"></span>outputs of each kind of module, over %" PRIu64
		   " passes with %" PRIu64 " tokens; products in ",
		   curves->n_passes, curves->n_tokens);
	escape_html(out, curves->precision);
	if (curves->passes_of_point > 1)
		buf_printf(out, ". A point is the largest of %" PRIu64 " passes",
			   curves->passes_of_point);
	buf_puts(out, ".</p>\n<div class=\"grid\">\n");
	for (size_t i = 0; i < curves->n; i++)
		put_curve(out, curves, &curves->list[i]);
	buf_puts(out, "</div>\n");
	if (curves->n_left_out)
		buf_printf(out,
			   "<p class=\"note\">%zu modules of further kinds are not shown.</p>\n",
			   curves->n_left_out);
	page_close(out);
}
