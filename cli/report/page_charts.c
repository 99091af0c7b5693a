/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures as inline SVG.  Each has a label in words; the numbers stand beside it as text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/report/page.h"
#include "report/escape.h"

/* Adds a text that is cut in the middle to at most `max` bytes. */
static void put_cut(struct buf *out, const char *text, size_t max)
{
	size_t n = strlen(text), head = max / 3, tail = max - max / 3;
	char *cut;

	if (n <= max) {
		escape_html(out, text);
		return;
	}
	while (head && (text[head] & 0xC0) == 0x80)
		head--;
	while (tail && (text[n - tail] & 0xC0) == 0x80)
		tail--;
	cut = xasprintf("%.*s…%s", (int)head, text, text + n - tail);
	escape_html(out, cut);
	free(cut);
}

static void open_svg(struct buf *out, double width, double height, const char *label)
{
	buf_printf(out,
		   "<svg role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
		   "aria-label=\"",
		   width, height, width, height);
	escape_html(out, label);
	buf_puts(out, "\">");
}

static void put_text(struct buf *out, double x, double y, const char *anchor, const char *text)
{
	buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	escape_html(out, text);
	buf_puts(out, "</text>");
}

/* --- bars --- */

#define BARS_WIDTH  320.0
#define BARS_HEIGHT 70.0

void page_put_bars(struct buf *out, const struct bars *bars)
{
	const double step = BARS_WIDTH / (double)(bars->n ? bars->n : 1);
	uint64_t max = 1;

	for (size_t i = 0; i < bars->n; i++)
		max = bars->heights[i] > max ? bars->heights[i] : max;
	open_svg(out, BARS_WIDTH, BARS_HEIGHT + 16, bars->label);
	buf_printf(out, "<path class=\"bar\" stroke-width=\"%.2f\" d=\"",
		   step > 24 ? 20 : step * (step > 4 ? 0.85 : 1));
	for (size_t i = 0; i < bars->n; i++)
		if (bars->heights[i])
			buf_printf(out, "M%.1f %.0fv%.1f", ((double)i + 0.5) * step, BARS_HEIGHT,
				   -fmax(1, (BARS_HEIGHT - 2) * (double)bars->heights[i] /
						    (double)max));
	buf_printf(out, "\"/><path class=\"axis\" d=\"M0 %.1fH%.0f\"/>", BARS_HEIGHT + 0.5,
		   BARS_WIDTH);
	put_text(out, 0, BARS_HEIGHT + 13, "start", bars->left);
	put_text(out, BARS_WIDTH / 2, BARS_HEIGHT + 13, "middle", bars->middle);
	put_text(out, BARS_WIDTH, BARS_HEIGHT + 13, "end", bars->right);
	buf_puts(out, "</svg>\n");
}

/* --- heat maps --- */

#define HEAT_STEPS   9	   /* colors h0 to h8 of the style */
#define HEAT_RANGE   3.0   /* dB that the colors span at least: less is no difference */
#define HEAT_NAME    40	   /* longest name, in bytes; others are cut */
#define HEAT_LETTER  6.3   /* width of a letter, about */
#define HEAT_WIDTH   860.0 /* of all cells, about */
#define HEAT_LINE    20.0
#define HEAT_NUMBERS 60.0

/* The colors and the columns of a heat map. */
struct heat {
	double low, high;  /* dB */
	uint32_t n_joined; /* layers of a column */
	uint32_t n_columns;
	double width;	   /* of a column */
	double label;	   /* width of names */
	const char *place; /* its first bytes begin all names with layers, and are left out: */
	size_t prefix;
};

/* Returns the name of a line without the place of the layers. */
static const char *short_name(const struct heat *heat, const struct heat_map *map, size_t line)
{
	const char *name = map->lines[line];

	if (strlen(name) > heat->prefix && heat->prefix &&
	    !strncmp(name, heat->place, heat->prefix))
		return name + heat->prefix;
	return name;
}

/* Finds the place of the layers: "model.layers.*." of all names that have one. */
static void find_place(struct heat *heat, const struct heat_map *map)
{
	for (size_t line = 0; line < map->n_lines; line++) {
		const char *star = strstr(map->lines[line], "*.");
		size_t n = star ? (size_t)(star - map->lines[line]) + 2 : 0;

		if (!n)
			continue;
		if (!heat->place) {
			heat->place = map->lines[line];
			heat->prefix = n;
		} else if (n != heat->prefix || strncmp(map->lines[line], heat->place, n) != 0) {
			heat->prefix = 0;
			return;
		}
	}
}

static void fit_names(struct heat *heat, const struct heat_map *map)
{
	size_t longest = 0;

	find_place(heat, map);
	for (size_t line = 0; line < map->n_lines; line++) {
		size_t n = strlen(short_name(heat, map, line));

		longest = n > longest ? n : longest;
	}
	heat->label = 10 + HEAT_LETTER * (double)(longest < HEAT_NAME ? longest : HEAT_NAME);
}

static struct heat heat_of(const struct heat_map *map)
{
	struct heat heat = { .low = INFINITY, .high = -INFINITY };
	uint32_t last = 0, columns;

	for (size_t i = 0; i < map->n_cells; i++) {
		if (isfinite(map->cells[i].value)) {
			heat.low = fmin(heat.low, map->cells[i].value);
			heat.high = fmax(heat.high, map->cells[i].value);
		}
		last = map->cells[i].layer > last ? map->cells[i].layer : last;
	}
	if (!(heat.low <= heat.high))
		heat.low = heat.high = 0;
	heat.low = fmin(heat.low, heat.high - HEAT_RANGE);
	columns = PAGE_MAX_CELLS / (uint32_t)(map->n_lines ? map->n_lines : 1);
	columns = columns < PAGE_MAX_LAYERS ? columns : PAGE_MAX_LAYERS;
	heat.n_joined = last / columns + 1;
	heat.n_columns = last / heat.n_joined + 1;
	fit_names(&heat, map);
	heat.width = fmin(28, fmax(6, floor(HEAT_WIDTH / heat.n_columns)));
	return heat;
}

static int color(const struct heat *heat, double value)
{
	double share = (value - heat->low) / (heat->high - heat->low);

	return share >= 1 ? HEAT_STEPS - 1 : share > 0 ? (int)(share * HEAT_STEPS) : 0;
}

static void put_cell(struct buf *out, const struct heat *heat, const struct heat_map *map,
		     const struct heat_cell *cell)
{
	const uint32_t column = cell->layer / heat->n_joined;

	buf_printf(out,
		   "<rect class=\"h%d\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\">"
		   "<title>layer %u, ",
		   color(heat, cell->value), heat->label + heat->width * column,
		   HEAT_LINE * (double)cell->line, heat->width, HEAT_LINE - 2, cell->layer);
	put_cut(out, short_name(heat, map, cell->line), 60);
	buf_puts(out, ": ");
	page_put_real(out, cell->value, 2);
	buf_puts(out, isfinite(cell->value) ? " dB" : "");
	if (cell->n > 1 && isfinite(cell->mean))
		buf_printf(out, ", lowest of %zu, mean %.2f dB", cell->n, cell->mean);
	buf_puts(out, "</title></rect>\n");
}

/* Adds the cells of a line, of which each column shows the lowest.  Returns the lowest of all. */
static double put_cells(struct buf *out, const struct heat *heat, const struct heat_map *map,
			size_t *at)
{
	const size_t line = map->cells[*at].line;
	double lowest = INFINITY;

	while (*at < map->n_cells && map->cells[*at].line == line) {
		const struct heat_cell *worst = &map->cells[*at];
		uint32_t column = worst->layer / heat->n_joined;

		for (; *at < map->n_cells && map->cells[*at].line == line &&
		       map->cells[*at].layer / heat->n_joined == column;
		     ++*at)
			if (map->cells[*at].value < worst->value)
				worst = &map->cells[*at];
		put_cell(out, heat, map, worst);
		lowest = fmin(lowest, worst->value);
	}
	return lowest;
}

static void put_columns(struct buf *out, const struct heat *heat, double y)
{
	uint32_t step = heat->n_columns > 60 ? 20 : heat->n_columns > 12 ? 5 : 1;
	char text[24];

	for (uint32_t column = 0; column < heat->n_columns; column += step) {
		snprintf(text, sizeof text, "%u", column * heat->n_joined);
		put_text(out, heat->label + heat->width * (column + 0.5), y, "middle", text);
	}
}

static void put_legend(struct buf *out, const struct heat *heat, double y)
{
	char text[32];

	for (int i = 0; i < HEAT_STEPS; i++)
		buf_printf(out,
			   "<rect class=\"h%d\" x=\"%.0f\" y=\"%.0f\" width=\"18\" "
			   "height=\"10\"/>",
			   i, heat->label + 18 * i, y);
	snprintf(text, sizeof text, "%.1f dB", heat->low);
	put_text(out, heat->label - 6, y + 9, "end", text);
	snprintf(text, sizeof text, "%.1f dB", heat->high);
	put_text(out, heat->label + 18 * HEAT_STEPS + 6, y + 9, "start", text);
}

void page_put_heat_map(struct buf *out, const struct heat_map *map)
{
	const struct heat heat = heat_of(map);
	const double height = HEAT_LINE * (double)map->n_lines;
	const double end = heat.label + heat.width * heat.n_columns;

	buf_puts(out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"");
	escape_html(out, map->label);
	buf_puts(out, "\">\n");
	open_svg(out, fmax(end, heat.label + 18 * HEAT_STEPS) + HEAT_NUMBERS, height + 44,
		 map->label);
	for (size_t line = 0, at = 0; line < map->n_lines; line++) {
		double y = HEAT_LINE * (double)line + 13, lowest = INFINITY;

		buf_printf(out, "<text class=\"v\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">",
			   heat.label - 6, y);
		put_cut(out, short_name(&heat, map, line), HEAT_NAME);
		buf_puts(out, "</text>\n");
		if (at < map->n_cells && map->cells[at].line == line)
			lowest = put_cells(out, &heat, map, &at);
		buf_printf(out, "<text x=\"%.0f\" y=\"%.1f\">", end + 6, y);
		page_put_real(out, lowest, 2);
		buf_puts(out, "</text>\n");
	}
	put_columns(out, &heat, height + 12);
	put_legend(out, &heat, height + 26);
	buf_puts(out, "</svg></div>\n");
}
