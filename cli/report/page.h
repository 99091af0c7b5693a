/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a page, which page.html shows.  Everything is bounded: a page of any checkpoint has
 * less than 5 MB.
 */
#ifndef FP8CONV_CLI_REPORT_PAGE_H
#define FP8CONV_CLI_REPORT_PAGE_H

#include "cli/print/json.h"
#include "cli/report/report.h"

/* page.html, as the build makes it. */
extern const char page_html[];

/* Adds a text of others, shortened; NULL: null. */
void page_text(struct json_out *out, const char *key, const char *text);

/* Adds a text of our own, and empties the buffer; null if it is empty. */
void page_buf(struct json_out *out, const char *key, struct buf *text);

/* Adds a ratio in dB: "exact" and "none" are infinite, null is not known. */
void page_ratio(struct json_out *out, const char *key, double value);

/* A ratio in dB in a place of a heat map, which may have several. */
struct heat_cell {
	const char *name; /* of the line */
	size_t line;
	uint32_t layer;
	double ratio;
};

/* Sorts the cells, and adds the lowest, the mean and the number of those in one place. */
void page_put_heat_map(struct json_out *out, const char *key, struct heat_cell *cells, size_t n);

/* Adds the SQNR of FP8 weights by group and layer. */
void page_put_sqnr(struct json_out *out, const struct reported *reported);

/* Adds what the tensors of each group share.  Returns the number of groups that fit. */
size_t page_put_groups(struct json_out *out, const struct reported *reported);

/* Adds the tensors of the first n_groups groups, as far as they fit: a text for each group. */
void page_put_tensors(struct json_out *out, const struct reported *reported, size_t n_groups);

#endif
