/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of the page of a report, and what they are drawn with.  Everything is bounded: a
 * page of any checkpoint has less than 5 MB.
 */
#ifndef FP8CONV_CLI_PRINT_PAGE_H
#define FP8CONV_CLI_PRINT_PAGE_H

#include "cli/report/report.h"

#define PAGE_MAX_ROWS	500	   /* of a table of groups */
#define PAGE_MAX_LAYERS 256	   /* columns of a heat map */
#define PAGE_MAX_CELLS	4096	   /* of a heat map; where there are more, layers are joined */
#define PAGE_MAX_LINES	64	   /* of a heat map, down; and groups with charts */
#define PAGE_MAX_DATA	(3400000u) /* bytes of the list of tensors */

/* Text, style and script that are the same on every page. */
extern const char page_style[], page_search[], page_script[];

/* Sections, in the order of the page.  One without anything to show says so, or is left out. */
void page_put_overview(struct buf *out, const struct reported *reported);
void page_put_sqnr(struct buf *out, const struct reported *reported);
void page_put_codes(struct buf *out, const struct reported *reported);
void page_put_evaluation(struct buf *out, const struct reported *reported);
void page_put_layers(struct buf *out, const struct reported *reported);
void page_put_calibration(struct buf *out, const struct reported *reported);
void page_put_kept(struct buf *out, const struct reported *reported);
void page_put_tensors(struct buf *out, const struct reported *reported);

/* Opens and closes a section with a heading. */
void page_open(struct buf *out, const char *id, const char *heading);
void page_close(struct buf *out);

/* Adds a number with few digits, "exact" and "none" for infinities, a dash for NAN. */
void page_put_real(struct buf *out, double value, int digits);

/* Adds n of total in percent. */
void page_put_share(struct buf *out, uint64_t n, uint64_t total);

/* Adds a name without what follows from its place: the ".weight" of a pattern. */
void page_put_module(struct buf *out, const char *pattern);

/* One cell of a heat map. */
struct heat_cell {
	size_t line; /* from 0 */
	uint32_t layer;
	double value, mean; /* dB; mean NAN: of one */
	size_t n;
};

/* A heat map: a line for each module, a column for each layer. */
struct heat_map {
	const char *label; /* for readers that see no pictures */
	size_t n_lines;
	const char *const *lines; /* names; long ones are cut in the middle */
	size_t n_cells;
	const struct heat_cell *cells; /* by line, then layer; at most one for each place */
};
void page_put_heat_map(struct buf *out, const struct heat_map *map);

/* Adds a chart of bars: n heights, from left to right. */
struct bars {
	const char *label;
	const uint64_t *heights;
	size_t n;
	const char *left, *middle, *right; /* below the axis */
};
void page_put_bars(struct buf *out, const struct bars *bars);

#endif
